/*
 * turn_batches.c - do all ranks load the same batches, in the same order?
 *
 * In turns each rank loads all batches, and computes its own. A rank that leaves out a batch by its own result, before
 * DDP_TURN_BEGIN, takes other batches than its own from then on, and all ranks still pass equal numbers of regions.
 * What shows it is the data: what the rank copies to its device first in a region is what rank 0 copies in a later one.
 *
 * Of each region the first copy of LEAST_BYTES or more is kept as a hash, from the end of the region before on, by the
 * thread of the region: a thread that loads data runs ahead as it likes. Ranks compare the last regions at each
 * complete DDP_STEP. Data that lie on the device from the start, or in memory that it shares with the host, show
 * nothing. Called by turns.c, and by touches.c for each copy.
 */
#include "interpose/engine/core/core.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/step/turns.h"

#include "base/message.h"
#include "comm/hash.h"

enum {
    LEAST_BYTES = 64, /* a rate, a seed or a rank's number is no batch */
    MOST_BYTES = 1 << 12,
    FARTHEST = 4, /* a rank is ahead by so many regions, or behind */
    WINDOW = 8,   /* of so many regions those that load data, */
    LEAST = 4,    /* at least so many, have the data of others */
};

static struct turn_batches batches; /* by the region's thread */
static __thread bool takes_turns;

void
turn_batch_copied(const void *source, size_t bytes)
{
    uint64_t *last = &batches.hashes[TURN_BATCHES_KEPT - 1];
    if (!takes_turns || bytes < LEAST_BYTES || *last != 0)
        return;
    *last = hash_bytes(source, bytes < MOST_BYTES ? bytes : MOST_BYTES) | 1;
}

void
turn_batch_begins(void)
{
    takes_turns = true;
    atomic_fetch_add(&engine_state.turn_regions, 1);
}

void
turn_batch_ends(void)
{
    memmove(batches.hashes, batches.hashes + 1, sizeof(batches.hashes) - sizeof(batches.hashes[0]));
    batches.hashes[TURN_BATCHES_KEPT - 1] = 0;
}

const struct turn_batches *
turn_batches_now(void)
{
    return &batches;
}

/* ---- comparisons ---- */

static bool
is_in(const uint64_t *hashes, size_t count, uint64_t hash)
{
    for (size_t i = 0; i < count; ++i) {
        if (hashes[i] == hash)
            return true;
    }
    return false;
}

/* Whether the last regions of `early` have what `late` has in those that are `by` regions later. Data that come again
 * within these regions prove nothing. */
static bool
is_shifted(const uint64_t *early, const uint64_t *late, size_t by)
{
    const size_t first = TURN_BATCHES_KEPT - WINDOW - by;
    size_t found = 0;
    for (size_t i = first; i < first + WINDOW; ++i) {
        if (early[i] != late[i + by])
            return false;
        if (early[i] == 0)
            continue;
        if (early[i] == late[i] || is_in(early + first, i - first, early[i]))
            return false;
        ++found;
    }
    return found >= LEAST;
}

/* By how many regions the rank is ahead of rank 0, or behind (negative); 0: neither. */
static int
shift_of(const uint64_t *zero, const uint64_t *theirs)
{
    for (int by = 1; by <= FARTHEST; ++by) {
        if (is_shifted(theirs, zero, (size_t)by))
            return by;
        if (is_shifted(zero, theirs, (size_t)by))
            return -by;
    }
    return 0;
}

static bool
all_differ(const uint64_t *zero, const uint64_t *theirs)
{
    size_t found = 0;
    for (size_t i = 0; i < TURN_BATCHES_KEPT; ++i) {
        const bool is_neither = zero[i] == 0 && theirs[i] == 0;
        const bool is_both = zero[i] != 0 && theirs[i] != 0;
        if (is_neither)
            continue;
        if (!is_both || zero[i] == theirs[i])
            return false;
        ++found;
    }
    return found >= WINDOW;
}

void
turn_batches_compare(const struct turn_batches *zero, const struct turn_batches *theirs, int rank)
{
    static bool warned;
    const int shift = shift_of(zero->hashes, theirs->hashes), by = abs(shift);
    const int early = shift > 0 ? rank : 0, late = shift > 0 ? 0 : rank;
    if (shift != 0)
        stop_job("ranks 0 and %d do not load the same batches: for %d regions of turns (DDP_TURN_BEGIN) rank %d has "
                 "copied to its device what rank %d has copied %d region%s later, so it has left batches out; a batch "
                 "that is left out must be left out on all ranks, so let no rank decide by what the device has "
                 "computed of its own batch alone",
                 rank, WINDOW, early, late, by, by == 1 ? "" : "s");
    if (warned || engine_state.rendezvous.rank != 0 || !all_differ(zero->hashes, theirs->hashes))
        return;
    warned = true;
    message_warning("different_batches",
                    "ranks 0 and %d have copied different data to their devices in each of the last %d regions of "
                    "turns (DDP_TURN_BEGIN): in turns all ranks load all batches in the same order; let all ranks "
                    "shuffle by one seed, not by the time or the rank",
                    rank, TURN_BATCHES_KEPT);
}
