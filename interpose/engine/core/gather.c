/*
 * gather.c - words of all ranks side by side, without a wait on the host.
 *
 * Each rank fills words in pinned memory, by host functions on the first communicator's stream; they are sent
 * through it, and a host function sees those of all ranks. All in the order of that stream, so one set of memory
 * is enough. Used by checks.c, duplicate_batch.c and weights.c; the issuer's role.
 */
#include "interpose/engine/core/core.h"
#include "interpose/engine/core/hashing.h"

#include "comm/kernels.h"

static CUstream
stream(void)
{
    return engine_state.collectives.communicators[0].stream;
}

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
    const struct driver *driver = &engine_state.driver;
    if (count == gathered->count)
        return;

    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    require_cuda(driver->cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode");
    if (gathered->count > 0)
        require_cuda(driver->cuStreamSynchronize_p(stream()), "waiting for checks in flight");
    free_words(gathered);
    size_t bytes = count * sizeof(uint64_t), all = bytes * (size_t)engine_state.rendezvous.world_size;
    gathered->on_device = gathered->compares && engine_state.collectives.setting.kernels.loaded;
    if (count > 0) {
        require_cuda(driver->cuMemAlloc_p(&gathered->send, bytes), "cuMemAlloc for words that are compared");
        require_cuda(driver->cuMemAlloc_p(&gathered->receive, all), "cuMemAlloc for words that are compared");
        require_cuda(driver->cuMemHostAlloc_p((void **)&gathered->mine, bytes, 0), "cuMemHostAlloc");
        require_cuda(driver->cuMemHostAlloc_p((void **)&gathered->all, gathered->on_device ? bytes : all, 0),
                     "cuMemHostAlloc");
        if (gathered->compares)
            require_cuda(driver->cuMemHostAlloc_p((void **)&gathered->differs, bytes, 0), "cuMemHostAlloc");
        if (gathered->on_device)
            require_cuda(driver->cuMemAlloc_p(&gathered->found, bytes), "cuMemAlloc for words that are compared");
    }
    gathered->count = count;
    require_cuda(driver->cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode");
}

static void
copy_out(void *to, CUdeviceptr from, size_t bytes)
{
    require_cuda(engine_state.driver.cuMemcpyDtoHAsync_p(to, from, bytes, stream()), "copying words that are compared");
    hashing_note_copy(bytes);
}

/* What came of all ranks becomes what differs. */
static void
compare_on_device(const struct gathered *gathered)
{
    struct comm_error error;
    if (!device_hash_compare(gathered->receive, gathered->count, engine_state.rendezvous.world_size, gathered->found,
                             &engine_state.driver, &engine_state.collectives.setting.kernels, stream(), &error))
        stop_job_by(error.cause, "%s", error.text);
    copy_out(gathered->differs, gathered->found, gathered->count * sizeof(uint32_t));
}

void
gather_send(struct gathered *gathered, const char *what, uint64_t number, CUhostFn compare, void *arg)
{
    const struct driver *driver = &engine_state.driver;
    struct comm_error error;
    size_t bytes = gathered->count * sizeof(uint64_t), all = bytes * (size_t)engine_state.rendezvous.world_size;
    require_cuda(driver->cuMemcpyHtoDAsync_p(gathered->send, gathered->mine, bytes, stream()),
                 "copying words that are compared");
    inflight_sending(what, number, 0);
    if (!collectives_gather_words(&engine_state.collectives, gathered->send, gathered->receive, gathered->count,
                                  &error))
        stop_job_by(error.cause, "%s: %s", what, error.text);
    if (gathered->on_device)
        compare_on_device(gathered);
    copy_out(gathered->all, gathered->receive, gathered->on_device ? bytes : all);
    require_cuda(driver->cuLaunchHostFunc_p(stream(), compare, arg), "cuLaunchHostFunc");
    inflight_sent(what, number, 0);
}
