/*
 * boundary.c - DDP_STEP: from here on, gradients are averages.
 *
 * Sends the buckets that have not left yet, makes the trainer's stream wait for all of them, and begins the next
 * interval. Order on the communication stream: buckets, then what is checked, then the event that releases the
 * trainer's stream.
 */
#include "interpose/engine/check/check.h"
#include "interpose/engine/core/hashing.h"
#include "interpose/engine/plan/measure.h"
#include "interpose/engine/plan/planner.h"
#include "interpose/engine/report/report.h"
#include "interpose/engine/send/send.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/verify/verify.h"

#include "base/clock.h"
#include "base/mutant.h"

static void __attribute__((noreturn)) stop_without_gradients(int group, const struct ddp_site *site)
{
    if (group != 0 || memory_state.gradient_count > 0)
        stop_job("DDP_STEP (%s:%d) of group %d, which has no gradients: annotate them with DDP_GRADIENT after "
                 "DDP_GRADIENT_GROUP(%d)",
                 site->file, site->line, group, group);
    stop_job("DDP_STEP (%s:%d) without gradients: annotate them with DDP_GRADIENT before the first step", site->file,
             site->line);
}

/* With lock held, after boundary_count grew: for the launcher. */
static void
report_step(void)
{
    static int64_t first_us;
    int64_t now_us = clock_now_us();
    if (first_us == 0)
        first_us = now_us;
    atomic_store(&engine_state.status->training_us, (uint64_t)(now_us - first_us));
    atomic_store(&engine_state.status->step, engine_state.boundary_count);
}

/* A world of one: there is nobody to average with. */
static void
step_alone(int group, CUstream stream, const struct ddp_site *site)
{
    pthread_mutex_lock(&engine_state.lock);
    size_t gradients = memory_state.gradient_count, in_group = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        const struct tensor *tensor = &memory_state.tensors[i];
        bytes += tensor->role == TENSOR_GRADIENT ? tensor->bytes : 0;
        in_group += tensor->role == TENSOR_GRADIENT && tensor->group == group;
    }
    pthread_mutex_unlock(&engine_state.lock);
    if (in_group == 0)
        stop_without_gradients(group, site);

    CUcontext before = context_enter(); /* of a thread that has none, the driver does not say what is captured */
    bool captured = stream_is_captured(stream);
    context_leave(before);
    check_boundary_begins(group, captured, site);
    weight_refuse_share(&memory_state.groups[group]);
    atomic_fetch_add(&engine_state.status->graph_step, captured); /* launches are not reported */
    atomic_store(&engine_state.status->gradient_count, gradients);
    atomic_store(&engine_state.status->gradient_bytes, bytes);
    pthread_mutex_lock(&engine_state.lock);
    memory_state.groups[group].weight = (struct weight){0, 0};
    if (!captured) {
        ++engine_state.boundary_count;
        report_step();
    }
    pthread_mutex_unlock(&engine_state.lock);
}

/* With lock held: whether kernels may have touched gradients of the group since its last boundary, unseen. */
static bool
is_touched_unseen(const struct group *group)
{
    bool reachable = atomic_load(&memory_state.blind);
    for (size_t i = 0; i < group->gradient_count; ++i)
        reachable = reachable || tensor_gradient(group, i)->held;
    return reachable && group->hidden_streams != 0;
}

void
boundary_refuse_unseen(const struct ddp_site *site)
{
    const char *name = NULL;
    if (engine_state.services->unknown_calls(&name) > 0)
        stop_job(
            "the trainer calls %s, in a version or form that this ddprun cannot follow, so it may not see all work on "
            "gradients; use another form of the call, or a newer ddprun",
            name);
    if (atomic_load(&engine_state.operation_count) == 0)
        stop_job("DDP_STEP (%s:%d): not one kernel launch or copy has been seen so far: ddprun does not see this "
                 "trainer's calls of the CUDA driver",
                 site->file, site->line);
}

/* Whatever would make averages of something that nobody has seen. */
static void
refuse_blindness(const struct group *group, const struct ddp_site *site)
{
    boundary_refuse_unseen(site);

    /* Between the first two steps of a group stand an optimizer and a backward pass, which touch gradients. */
    pthread_mutex_lock(&engine_state.lock);
    bool idle = group->weight.total > 0 && group->weight.count == 0; /* it has no items */
    bool blind = group->boundary_count == 1 && group->touch_count == 0 && group->opaque_streams == 0 && !idle &&
                 !is_touched_unseen(group);
    pthread_mutex_unlock(&engine_state.lock);
    if (blind)
        stop_job("DDP_STEP (%s:%d): no kernel, copy or library call has touched an annotated gradient since the step "
                 "before; do the annotations name the memory that backward writes?",
                 site->file, site->line);
}

/* With lock held: the streams that touched the group's gradients since its last boundary. */
static uint64_t
streams_of(const struct group *group)
{
    uint64_t mask = group->opaque_streams | group->hidden_streams;
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        if (memory_state.tensors[i].group == group->id)
            mask |= memory_state.tensors[i].touched_by;
    }
    return mask;
}

/*
 * The issuer: all streams that touched the group's gradients, and the one that the trainer names, are waited for. Where
 * parameters are compared, those of other groups too: their optimizers have read their gradients there.
 */
static void
wait_for_producers(const struct group *group, CUstream stream)
{
    bool all = checks_parameters_due(group);
    pthread_mutex_lock(&engine_state.lock);
    uint64_t mask = memory_state.buffer_streams | UINT64_C(1) << stream_index(stream);
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        if ((all || g == group->id) && !MUTANT(NOT_FLUSHED_FIRST))
            mask |= streams_of(&memory_state.groups[g]);
    }
    pthread_mutex_unlock(&engine_state.lock);
    for (unsigned i = 0; i < engine_state.collectives.communicator_count; ++i)
        issue_wait_for_streams(mask, i);
}

void
boundary_wait_for_all_producers(CUstream stream)
{
    pthread_mutex_lock(&engine_state.lock);
    uint64_t mask = memory_state.buffer_streams | UINT64_C(1) << stream_index(stream);
    for (int g = 0; g < GROUPS_AT_MOST; ++g)
        mask |= streams_of(&memory_state.groups[g]);
    pthread_mutex_unlock(&engine_state.lock);
    for (unsigned i = 0; i < engine_state.collectives.communicator_count; ++i)
        issue_wait_for_streams(mask, i);
}

static void
flush_buckets(struct group *group)
{
    for (;;) {
        size_t bucket;
        pthread_mutex_lock(&engine_state.lock);
        bool left = readiness_flush(&group->readiness, &bucket);
        pthread_mutex_unlock(&engine_state.lock);
        if (!left)
            return;
        issue_bucket(group, bucket, false);
    }
}

void
boundary_release(CUstream stream)
{
    const struct driver *driver = &engine_state.driver;
    require_cuda(driver->cuEventRecord_p(engine_state.reduced, engine_state.collectives.stream), "cuEventRecord");
    if (!MUTANT(NO_BOUNDARY_WAIT))
        require_cuda(driver->cuStreamWaitEvent_p(stream, engine_state.reduced, 0), "waiting for the reduction");
}

/* With lock held: the streams that a later boundary of some group must wait for. */
static uint64_t
streams_named(void)
{
    uint64_t mask = memory_state.buffer_streams;
    for (size_t i = 0; i < engine_state.tensor_count; ++i)
        mask |= memory_state.tensors[i].touched_by;
    for (int g = 0; g < GROUPS_AT_MOST; ++g)
        mask |= memory_state.groups[g].opaque_streams | memory_state.groups[g].hidden_streams;
    return mask;
}

/* Closes the group's interval; returns whether it repeated the one before. */
bool
boundary_close_interval(struct group *group, CUstream stream)
{
    pthread_mutex_lock(&engine_state.lock);
    bool overlapped = group->overlapping && !group->readiness.deviates;
    bool repeats = history_boundary(&group->history);
    readiness_boundary(&group->readiness);
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        if (memory_state.tensors[i].group == group->id)
            memory_state.tensors[i].touched_by = 0;
    }
    group->opaque_streams = group->hidden_streams = 0;
    memory_state.buffer_streams = 0;
    group->touch_count = 0;
    group->weight = (struct weight){0, 0};
    ++group->boundary_count;
    ++engine_state.boundary_count;
    if (group->overlapping)
        ++group->overlapped_steps;
    if (overlapped && group->early_buckets > 0)
        atomic_fetch_add(&engine_state.status->overlapped_step, 1);
    group->early_buckets = 0;
    report_step(); /* before a vote: others look at it there */
    streams_forget(stream, streams_named());
    pthread_mutex_unlock(&engine_state.lock);
    return repeats;
}

/* The same for steps that are captured: what the annotations say, on all ranks. Weights of captured steps are compared
 * later. */
static void
ensure_agreement(struct group *group, bool captured, const struct ddp_site *site)
{
    pthread_mutex_lock(&engine_state.lock);
    bool changed = memory_state.annotations_changed || memory_state.agreements == 0;
    pthread_mutex_unlock(&engine_state.lock);
    if (changed)
        agree_on_annotations(site, captured);
    if (group->gradient_count == 0)
        stop_without_gradients((int)(group - memory_state.groups), site);
    if (!captured)
        weight_agree(group, changed, false);
}

/* Ends the job if work on the group's gradients is being captured, and this step is not. */
static void
refuse_step_outside(const struct group *group, const struct ddp_site *site)
{
    if (atomic_load(&engine_state.captures_open) == 0)
        return;
    pthread_mutex_lock(&engine_state.lock);
    bool touched = captures_touch(group->places, group->gradient_count);
    pthread_mutex_unlock(&engine_state.lock);
    if (touched)
        stop_job(
            "DDP_STEP (%s:%d) names a stream that is not captured, while work on gradients is being captured: name "
            "a stream of the capture, or end it before",
            site->file, site->line);
}

static void
step_together(struct group *group, CUstream stream, const struct ddp_site *site)
{
    int64_t exposed_ns, bound_ns;
    ensure_agreement(group, false, site);
    refuse_blindness(group, site);
    tensor_refuse_freed_parameters();
    refuse_step_outside(group, site);

    issue_take_role();
    agree_wait_owed();
    launch_agree(0, "DDP_STEP", site);
    agree_on_boundary(group, site);
    measure_promised(group, &exposed_ns, &bound_ns);
    trace_boundary(group, stream, exposed_ns, bound_ns);
    measure_backward_done(group, stream);
    wait_for_producers(group, stream);
    flush_buckets(group);
    issue_join();
    buffers_send();
    trace_sent(group);
    checks_before_release(group);
    boundary_release(stream);
    measure_released(group, stream);
    checks_after_release();
    trace_checked(group, hashing_take_copied());
    struct weight weight = weight_of(group);
    weight_compare(&weight);
    learn_vote(group, boundary_close_interval(group, stream));
    measure_next_interval(group, stream);
    batches_compare();
    checks_next_interval(group);
    trace_step_end(group);
    issue_give_role();
    issue_ready(); /* of the group whose boundary is next, buckets may have been ready all the while */
}

void
boundary_step(int group, void *stream, const struct ddp_site *site)
{
    if (group < 0 || group >= GROUPS_AT_MOST)
        stop_job("DDP_STEP_GROUP(%d, ...) (%s:%d): groups are numbered 0 to %d", group, site->file, site->line,
                 GROUPS_AT_MOST - 1);
    interval_refuse_step(site);
    unaveraged_step();
    flight_note_site(FLIGHT_BOUNDARY_BEGIN, (uint64_t)group, site);
    if (engine_state.rendezvous.world_size == 1) {
        step_alone(group, stream, site);
        check_boundary_ends(group);
    } else {
        agree_refuse_after_reset("DDP_STEP", site);
        agree_ensure_driver(site);
        CUcontext before = context_enter();
        context_require(stream, before, "DDP_STEP", site);
        CUstreamCaptureMode mode = context_exchange_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
        struct capture *capture;
        enum capture_state state = capture_find(stream, &capture);
        if (state == CAPTURE_BROKEN)
            stop_job("DDP_STEP (%s:%d) stands in a capture that has failed, or the driver does not say which; ddprun "
                     "follows CUDA graphs with a driver for CUDA 12.3 or newer",
                     site->file, site->line);
        if (state == CAPTURE_ACTIVE) {
            check_boundary_begins(group, true, site);
            ensure_agreement(&memory_state.groups[group], true, site);
            capture_step(capture, &memory_state.groups[group], stream, site);
        } else {
            check_boundary_begins(group, false, site);
            step_together(&memory_state.groups[group], stream, site);
            check_boundary_ends(group);
        }
        (void)context_exchange_capture_mode(mode);
        context_leave(before);
    }
    flight_note_site(FLIGHT_BOUNDARY_END, (uint64_t)group, site);
    uint32_t rank = RANK_STAGE_RANK;
    atomic_compare_exchange_strong(&engine_state.status->stage, &rank, RANK_STAGE_TRAINING);
}
