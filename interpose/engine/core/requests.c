/*
 * requests.c - a rank whose device waits for a bucket asks the other ranks to launch it.
 *
 * Ranks may launch a bucket at any time before its boundary. One that waits for the whole device, in front of DDP_STEP,
 * waits for buckets that it has launched; another rank may be about to launch them only at its DDP_STEP, and wait for
 * the first one before that, in a message (DDP_MEAN). So the first one asks, and who waits in a message launches what
 * its plan has left (send/serve.c). The request is the number of a step in the rank's record; where each rank has a
 * ddprun of its own, these pass it on.
 */
#include "interpose/engine/core/core.h"

void
request_ask(uint64_t step)
{
    if (atomic_load(&engine_state.status->buckets_asked) < step)
        atomic_store(&engine_state.status->buckets_asked, step);
}

static const struct rank_status *
record_at(int index)
{
    const char *first = (const char *)engine_state.status - (size_t)engine_state.status_index * RANK_STATUS_STRIDE;
    return (const struct rank_status *)(first + (size_t)index * RANK_STATUS_STRIDE);
}

bool
request_has_come(uint64_t step)
{
    uint64_t generation = engine_state.rendezvous.generation;
    for (int i = 0; i < engine_state.status_count; ++i) {
        const struct rank_status *other = record_at(i);
        bool asks = i != engine_state.status_index && atomic_load(&other->generation) == generation &&
                    atomic_load(&other->buckets_asked) == step;
        if (asks)
            return true;
    }
    return atomic_load(&engine_state.status->buckets_wanted) == rank_wanted_pack(generation, step);
}
