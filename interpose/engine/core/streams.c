/*
 * streams.c - the streams on which gradients are touched: a table of events, one for each.
 *
 * An entry stands from a stream's first touch until the boundaries of all groups whose gradients were touched on it;
 * masks (struct tensor, struct group) name entries by their place. Called by touches.c, boundary.c and the hooks. Below
 * the table: how the streams of the trainer and those of the collectives wait for each other.
 */
#include "interpose/engine/core/core.h"

#include <unistd.h>

static bool
is_same_stream(const struct stream_entry *entry, CUstream handle)
{
    return entry->handle == handle && !entry->destroyed && (handle != CU_STREAM_PER_THREAD || entry->owner == gettid());
}

unsigned
stream_index(CUstream handle)
{
    unsigned free_at = STREAMS_AT_MOST;
    ASSERT(handle != NULL); /* which is that of a free entry */
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i) {
        if (is_same_stream(&engine_state.streams[i], handle))
            return i;
        if (engine_state.streams[i].handle == NULL && free_at == STREAMS_AT_MOST)
            free_at = i;
    }
    if (free_at == STREAMS_AT_MOST)
        stop_job("gradients are touched on more than %d streams between two steps, which is more than ddprun follows",
                 STREAMS_AT_MOST);
    engine_state.streams[free_at] = (struct stream_entry){
        .handle = handle,
        .owner = handle == CU_STREAM_PER_THREAD ? gettid() : 0,
        .event = engine_state.streams[free_at].event, /* an event may serve another stream */
    };
    return free_at;
}

bool
stream_is_captured(CUstream stream)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    return engine_state.driver.cuStreamIsCapturing_p(stream, &capture) != CUDA_SUCCESS ||
           capture != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Default streams are the current context's: the trainer's now, another thread's or the engine's later. */
static void
require_own_context(CUstream handle)
{
    CUcontext current = NULL;
    if (handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD)
        return;
    CUDA("cuCtxGetCurrent", cuCtxGetCurrent, &current);
    context_require(handle, current, "work on gradients", NULL);
}

CUevent
timing_event(void)
{
    CUevent event;
    CUDA("cuEventCreate", cuEventCreate, &event, CU_EVENT_DEFAULT);
    return event;
}

void
stream_refuse_foreign(CUstream handle)
{
    CUcontext context = NULL;
    if (engine_state.driver.cuStreamGetCtx_p(handle, &context) == CUDA_SUCCESS && context != engine_state.context)
        stop_job("a stream with work on gradients, or the one that DDP_STEP names, is of " CONTEXT_FOREIGN);
}

void
stream_record(CUstream handle, CUevent event, const char *what)
{
    CUresult result = engine_state.driver.cuEventRecord_p(event, handle);
    if (result == CUDA_ERROR_INVALID_HANDLE)
        stream_refuse_foreign(handle);
    require_cuda(result, what);
}

void
stream_wait_for_reduction(CUstream handle)
{
    require_own_context(handle);
    engine_lock();
    uint64_t boundary = engine_state.boundary_count;
    bool waits = engine_state.streams[stream_index(handle)].waited_for < boundary;
    engine_unlock();
    if (!waits)
        return;

    /* Noted only now: another thread on this stream must not believe in a wait that is not there yet. */
    CUDA("waiting for the last reduction", cuStreamWaitEvent, handle, engine_state.reduced, 0);
    engine_lock();
    struct stream_entry *entry = &engine_state.streams[stream_index(handle)];
    if (entry->waited_for < boundary)
        entry->waited_for = boundary;
    engine_unlock();
}

void
streams_wait_again(void)
{
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i)
        engine_state.streams[i].waited_for = 0;
}

void
stream_note_work(CUstream handle)
{
    if (handle != CU_STREAM_PER_THREAD)
        return;
    CUevent event = LOCKED(engine_state.streams[stream_index(handle)].event);
    stream_record(handle, event, "cuEventRecord");
}

void
streams_before_destroy(CUstream stream)
{
    if (!atomic_load(&engine_state.driver_ready) || atomic_load(&engine_state.context_ended) ||
        context_driver_is_gone())
        return;
    role_take(); /* no other thread names the handle from here on */
    issuer_lock();
    struct stream_entry *entry = NULL;
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i) {
        if (is_same_stream(&engine_state.streams[i], stream))
            entry = &engine_state.streams[i];
    }
    issuer_unlock();

    /* Its work continues after the handle is gone; the event remembers it until the boundary. */
    if (entry != NULL) {
        stream_record(stream, entry->event, "cuEventRecord on a stream that is destroyed");
        issuer_lock();
        entry->destroyed = true;
        issuer_unlock();
    }
    atomic_fetch_add(&engine_state.stream_changes, 1);
    role_give();
}

void
streams_forget(CUstream released, uint64_t named)
{
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i) {
        if (!(named >> i & 1))
            engine_state.streams[i] = (struct stream_entry){.event = engine_state.streams[i].event};
    }
    engine_state.streams[stream_index(released)].waited_for = engine_state.boundary_count;
}

/* ---- streams and collectives ---- */

void
streams_wait_for_producers(uint64_t mask, CUstream waiter)
{
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i) {
        if (!(mask >> i & 1))
            continue;
        const struct stream_entry entry = ISSUER_LOCKED(engine_state.streams[i]);
        ASSERT(entry.handle != NULL);

        bool recorded = entry.destroyed || (entry.handle == CU_STREAM_PER_THREAD && entry.owner != gettid());
        if (!recorded && stream_is_captured(entry.handle)) /* an event there would draw our streams into the graph */
            stop_job("a stream on which gradients were touched is being captured into a CUDA graph while they are "
                     "averaged: capture it between DDP_STEP and the first work on gradients, or on another stream");
        if (!recorded)
            stream_record(entry.handle, entry.event, "cuEventRecord after gradients");
        CUDA("waiting for gradients", cuStreamWaitEvent, waiter, entry.event, 0);
    }
}

bool
streams_is_one(uint64_t mask, CUstream *stream_p)
{
    if (mask == 0 || (mask & (mask - 1)) != 0)
        return false;
    const struct stream_entry entry = ISSUER_LOCKED(engine_state.streams[__builtin_ctzll(mask)]);
    *stream_p = entry.handle;
    return !entry.destroyed && (entry.handle != CU_STREAM_PER_THREAD || entry.owner == gettid()) &&
           !stream_is_captured(entry.handle);
}

void
streams_wait_for_buckets(void)
{
    RELAX_CAPTURES();
    CUDA("waiting for buckets in flight", cuStreamSynchronize, first_stream());
}
