/*
 * gather.c - words of all ranks side by side, without a wait on the host.
 *
 * Each rank fills words in pinned memory, by host functions on the engine's stream; they are sent
 * through it, and a host function sees those of all ranks. All in the order of that stream, so one set of memory
 * is enough. Used by checks.c, duplicate_batch.c and weights.c; the issuer's role.
 */
#include "interpose/engine/core/core.h"
#include "interpose/engine/core/hashing.h"

#include "comm/device_hash.h"
#include "comm/hash.h"

static void
free_words(struct gathered *gathered)
{
    const struct driver *driver = &engine_state.driver;
    if (gathered->count > 0) {
        (void)driver->cuMemFree_p(gathered->send);
        (void)driver->cuMemFree_p(gathered->receive);
        (void)driver->cuMemFreeHost_p(gathered->mine);
        (void)driver->cuMemFreeHost_p(gathered->all);
        if (gathered->compares)
            (void)driver->cuMemFreeHost_p(gathered->differs);
        if (gathered->on_device)
            (void)driver->cuMemFree_p(gathered->found);
    }
    *gathered = (struct gathered){.compares = gathered->compares};
}

void
gather_prepare(struct gathered *gathered, size_t count)
{
    if (count == gathered->count)
        return;

    static const char what[] = "cuMemAlloc for words that are compared";
    RELAX_CAPTURES();
    if (gathered->count > 0)
        CUDA("waiting for checks in flight", cuStreamSynchronize, first_stream());
    free_words(gathered);
    size_t bytes = count * sizeof(uint64_t), all = bytes * (size_t)engine_state.rendezvous.world_size;
    gathered->on_device = gathered->compares && engine_state.collectives.setting.kernels.loaded;
    if (count > 0) {
        gathered->send = device_allocate(bytes, what);
        gathered->receive = device_allocate(all, what);
        gathered->mine = device_allocate_pinned(bytes);
        gathered->all = device_allocate_pinned(gathered->on_device ? bytes : all);
        if (gathered->compares)
            gathered->differs = device_allocate_pinned(bytes);
        if (gathered->on_device)
            gathered->found = device_allocate(bytes, what);
    }
    gathered->count = count;
}

bool
gather_differs(uint32_t differs)
{
    return differs != HASH_EQUAL && differs != HASH_UNCOMPARED;
}

static const char copied[] = "copying words that are compared";

/* What came of all ranks becomes what differs. */
static void
compare_on_device(const struct gathered *gathered)
{
    struct comm_error error;
    require_comm(device_hash_compare(gathered->receive, gathered->count, engine_state.rendezvous.world_size,
                                     gathered->found, &engine_state.driver, &engine_state.collectives.setting.kernels,
                                     first_stream(), &error),
                 &error);
    hashing_copy_out(gathered->differs, gathered->found, gathered->count * sizeof(uint32_t), first_stream(), copied);
}

void
gather_send(struct gathered *gathered, const char *what, uint64_t number, CUhostFn compare, void *arg)
{
    struct comm_error error;
    size_t bytes = gathered->count * sizeof(uint64_t), all = bytes * (size_t)engine_state.rendezvous.world_size;
    CUDA(copied, cuMemcpyHtoDAsync, gathered->send, gathered->mine, bytes, first_stream());
    inflight_sending(what, number, 0);
    if (!collectives_gather_words(&engine_state.collectives, gathered->send, gathered->receive, gathered->count,
                                  &error))
        stop_job_by(error.cause, "%s: %s", what, error.text);
    if (gathered->on_device)
        compare_on_device(gathered);
    hashing_copy_out(gathered->all, gathered->receive, gathered->on_device ? bytes : all, first_stream(), copied);
    CUDA("cuLaunchHostFunc", cuLaunchHostFunc, first_stream(), compare, arg);
    inflight_sent(what, number, 0);
}
