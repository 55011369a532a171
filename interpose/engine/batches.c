/*
 * batches.c - do all ranks train on the same data? Then more of them gain nothing, and nobody is told by a wrong
 * result.
 *
 * What the trainer copies to the device between its first steps is hashed; ranks compare once. Only a hint, said once
 * by rank 0: a trainer may have reasons to feed all ranks alike.
 */
#include "interpose/engine/state.h"

#include "base/message.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

enum {
    FIRST_BOUNDARY = 1, /* what comes before the first step is initialisation */
    STEPS = 3,
    LEAST_BYTES = 1024, /* a learning rate or a step counter is no batch */
};

/* What was copied between two boundaries. */
struct copied {
    uint64_t bytes;
    uint64_t hash;
};

/* Guards the record: copies come from any thread. */
static pthread_mutex_t copied_lock = PTHREAD_MUTEX_INITIALIZER;
static struct copied copied[STEPS];

/* The place of the interval that goes on in copied[]; -1: it is not recorded. */
static long
current_place(void)
{
    uint64_t boundary = engine_state.boundary_count;
    return boundary >= FIRST_BOUNDARY && boundary < FIRST_BOUNDARY + STEPS ? (long)(boundary - FIRST_BOUNDARY) : -1;
}

void
batches_copied(const void *host, size_t bytes)
{
    long place = current_place();
    if (place < 0)
        return;
    pthread_mutex_lock(&copied_lock);
    copied[place].hash = XXH3_64bits_withSeed(host, bytes, copied[place].hash);
    copied[place].bytes += bytes;
    pthread_mutex_unlock(&copied_lock);
}

static bool
are_batches(const struct copied *steps)
{
    for (int i = 0; i < STEPS; ++i) {
        if (steps[i].bytes < LEAST_BYTES)
            return false;
    }
    return true;
}

void
batches_compare(void)
{
    if (engine_state.boundary_count != FIRST_BOUNDARY + STEPS)
        return;
    struct control_messages all;
    agree_exchange("the comparison of batches", copied, sizeof(copied), &all);
    for (int r = 1; r < all.count && engine_state.rendezvous.rank == 0; ++r) {
        if (all.bytes[r] == sizeof(copied) && are_batches(all.messages[0]) &&
            memcmp(all.messages[0], all.messages[r], sizeof(copied)) == 0) {
            message_line(
                "ranks 0 and %d copied the same %d batches to their devices: shard your data (DDP_SHARD), or more "
                "ranks gain nothing",
                r, STEPS);
            break;
        }
    }
    control_free_messages(&all);
}
