/*
 * share.h - DDP_SHARD's arithmetic, for the rank and for other processes of the rank.
 */
#ifndef DDPRUN_BASE_SHARE_H
#define DDPRUN_BASE_SHARE_H

#include "base/protocol.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The share [*first, *first + *count) of `total` items: the first `total % world` ranks have one item more. */
static inline void
share_of(size_t total, size_t rank, size_t world, size_t *first, size_t *count)
{
    size_t base = total / world, more = total % world;
    *first = rank * base + (rank < more ? rank : more);
    *count = base + (rank < more);
}

/* A share was asked for. Without a lock: several processes of the rank call this. */
static inline void
share_note(struct rank_status *status, size_t total, size_t world)
{
    uint64_t before = 0;
    if (!atomic_compare_exchange_strong(&status->shard_total, &before, total) && before != total)
        atomic_store(&status->shard_total, UINT64_MAX);
    atomic_fetch_add(&status->shard_calls, 1);
    if (total % world != 0)
        atomic_store(&status->uneven_shares, 1);
}

#endif
