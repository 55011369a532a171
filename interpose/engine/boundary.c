/*
 * boundary.c - DDP_STEP: from here on, gradients are averages.
 *
 * Sends the buckets that have not left yet, makes the trainer's stream wait for all of them, and begins the next
 * interval. Order on the communication stream: buckets, then what is checked, then the event that releases the
 * trainer's stream.
 */
#include "interpose/engine/state.h"

#include "base/mutant.h"

/* A world of one: there is nobody to average with. */
static void
step_alone(const struct ddp_site *site)
{
    pthread_mutex_lock(&engine_state.lock);
    size_t gradients = engine_state.gradient_count;
    uint64_t bytes = 0;
    for (size_t i = 0; i < engine_state.tensor_count; ++i)
        bytes += engine_state.tensors[i].role == TENSOR_GRADIENT ? engine_state.tensors[i].bytes : 0;
    ++engine_state.boundary_count;
    pthread_mutex_unlock(&engine_state.lock);
    if (gradients == 0)
        stop_job("DDP_STEP (%s:%d) without gradients: annotate them with DDP_GRADIENT before the first step",
                 site->file, site->line);
    atomic_store(&engine_state.status->gradient_count, gradients);
    atomic_store(&engine_state.status->gradient_bytes, bytes);
    atomic_store(&engine_state.status->step, engine_state.boundary_count);
}

/* Whatever would make averages of something that nobody has seen. */
static void
refuse_blindness(const struct ddp_site *site)
{
    const char *name = NULL;
    if (engine_state.services->unknown_calls(&name) > 0)
        stop_job("the trainer calls %s in a version that this ddprun cannot follow, so it may not see all work on "
                 "gradients; use an older form of the call, or a newer ddprun",
                 name);
    if (atomic_load(&engine_state.operation_count) == 0)
        stop_job("DDP_STEP (%s:%d): not one kernel launch or copy has been seen so far: ddprun does not see this "
                 "trainer's calls of the CUDA driver",
                 site->file, site->line);

    /* Between the first two steps stand an optimizer and a backward pass, which touch gradients. */
    pthread_mutex_lock(&engine_state.lock);
    bool blind = engine_state.touch_count == 0 && engine_state.opaque_streams == 0 && engine_state.boundary_count == 1;
    pthread_mutex_unlock(&engine_state.lock);
    if (blind)
        stop_job("DDP_STEP (%s:%d): no kernel, copy or library call has touched an annotated gradient since the step "
                 "before; do the annotations name the memory that backward writes?",
                 site->file, site->line);
}

static void
refuse_capture(CUstream stream, const struct ddp_site *site)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    if (engine_state.driver.cuStreamIsCapturing_p(stream, &capture) != CUDA_SUCCESS ||
        capture != CU_STREAM_CAPTURE_STATUS_NONE)
        stop_job(
            "DDP_STEP (%s:%d) stands in a captured CUDA graph, which ddprun cannot follow; run the trainer without "
            "CUDA graphs",
            site->file, site->line);
}

/* The issuer: all streams that touched gradients, and the one that the trainer names, are waited for. */
static void
wait_for_producers(CUstream stream)
{
    pthread_mutex_lock(&engine_state.lock);
    uint64_t mask = engine_state.opaque_streams | UINT64_C(1) << stream_index(stream);
    for (size_t i = 0; i < engine_state.tensor_count; ++i)
        mask |= engine_state.tensors[i].touched_by;
    pthread_mutex_unlock(&engine_state.lock);
    for (unsigned i = 0; i < engine_state.collectives.communicator_count; ++i)
        issue_wait_for_streams(mask, i);
}

static void
flush_buckets(void)
{
    for (;;) {
        size_t bucket;
        pthread_mutex_lock(&engine_state.lock);
        bool left = readiness_flush(&engine_state.readiness, &bucket);
        pthread_mutex_unlock(&engine_state.lock);
        if (!left)
            return;
        issue_bucket(bucket, false);
    }
}

static void
release(CUstream stream)
{
    const struct driver *driver = &engine_state.driver;
    require_cuda(driver->cuEventRecord_p(engine_state.reduced, engine_state.collectives.stream), "cuEventRecord");
    if (!MUTANT(NO_BOUNDARY_WAIT))
        require_cuda(driver->cuStreamWaitEvent_p(stream, engine_state.reduced, 0), "waiting for the reduction");
}

/* With lock held: the table begins anew, with the same events; the released stream has waited already. */
static void
forget_streams(CUstream released)
{
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i)
        engine_state.streams[i] = (struct stream_entry){.event = engine_state.streams[i].event};
    engine_state.streams[stream_index(released)].waited_for = engine_state.boundary_count;
}

/* Closes the interval; returns whether it repeated the one before. */
static bool
close_interval(CUstream stream)
{
    pthread_mutex_lock(&engine_state.lock);
    bool overlapped = engine_state.overlapping && !engine_state.readiness.deviates;
    bool repeats = history_boundary(&engine_state.history);
    readiness_boundary(&engine_state.readiness);
    for (size_t i = 0; i < engine_state.tensor_count; ++i)
        engine_state.tensors[i].touched_by = 0;
    engine_state.opaque_streams = 0;
    engine_state.touch_count = 0;
    ++engine_state.boundary_count;
    if (engine_state.overlapping)
        ++engine_state.overlapped_steps;
    if (overlapped && engine_state.early_buckets > 0)
        atomic_fetch_add(&engine_state.status->overlapped_step, 1);
    engine_state.early_buckets = 0;
    atomic_store(&engine_state.status->step, engine_state.boundary_count); /* before a vote: others look at it there */
    forget_streams(stream);
    pthread_mutex_unlock(&engine_state.lock);
    return repeats;
}

static void
step_together(CUstream stream, const struct ddp_site *site)
{
    refuse_capture(stream, site);
    pthread_mutex_lock(&engine_state.lock);
    bool changed = engine_state.annotations_changed || engine_state.plan == NULL;
    pthread_mutex_unlock(&engine_state.lock);
    if (changed)
        agree_on_annotations(site);
    refuse_blindness(site);

    issue_take_role();
    trace_boundary(stream);
    wait_for_producers(stream);
    flush_buckets();
    issue_join();
    trace_sent();
    checks_before_release();
    release(stream);
    checks_after_release();
    agree_vote(close_interval(stream));
    batches_compare();
    checks_next_interval();
    trace_step_end();
    issue_give_role();
}

void
boundary_step(void *stream, const struct ddp_site *site)
{
    if (engine_state.rendezvous.world_size == 1) {
        step_alone(site);
    } else if (atomic_load(&engine_state.context_ended)) {
        stop_job(
            "DDP_STEP (%s:%d) after the device was reset: ddprun's streams and buffers are gone with it; reset it at "
            "the end only",
            site->file, site->line);
    } else {
        agree_ensure_driver(site);
        CUcontext before = context_enter();
        CUstreamCaptureMode mode = context_exchange_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
        step_together(stream, site);
        (void)context_exchange_capture_mode(mode);
        context_leave(before);
    }
    uint32_t rank = RANK_STAGE_RANK;
    atomic_compare_exchange_strong(&engine_state.status->stage, &rank, RANK_STAGE_TRAINING);
}
