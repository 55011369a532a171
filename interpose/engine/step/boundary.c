/*
 * boundary.c - DDP_STEP: from here on, gradients are averages; DDP_STEP_PARAMETERS: parameters are.
 *
 * Sends the buckets that have not left yet, makes the trainer's stream wait for all of them, and begins the next
 * interval. Order on the communication stream: buckets, then what is checked, then the event that releases the
 * trainer's stream.
 */
#include "interpose/engine/core/hashing.h"
#include "interpose/engine/core/observer.h"
#include "interpose/engine/measure/measure.h"
#include "interpose/engine/plan/planner.h"
#include "interpose/engine/report/report.h"
#include "interpose/engine/send/send.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/verify/verify.h"

#include "base/clock.h"

static void __attribute__((noreturn)) stop_without_gradients(int group, const struct ddp_site *site)
{
    engine_lock();
    size_t count = memory_state.gradient_count;
    bool parameters = group_has(group, true);
    engine_unlock();
    if (parameters && count == 0)
        stop_job("DDP_STEP (%s:%d) without gradients: annotate them with DDP_GRADIENT before the first step; a program "
                 "that updates its parameters without gradient buffers calls DDP_STEP_PARAMETERS after the update",
                 site->file, site->line);
    if (group != 0 || count > 0)
        stop_job("DDP_STEP (%s:%d) of group %d, which has no gradients: annotate them with DDP_GRADIENT after "
                 "DDP_GRADIENT_GROUP(%d)",
                 site->file, site->line, group, group);
    stop_job("DDP_STEP (%s:%d) without gradients: annotate them with DDP_GRADIENT before the first step", site->file,
             site->line);
}

/* ---- DDP_STEP_PARAMETERS ---- */

/* Ends the job if the group cannot have this boundary. */
static void
refuse_parameters(int id, const struct ddp_site *site)
{
    engine_lock();
    bool gradients = group_has(id, false), parameters = group_has(id, true);
    engine_unlock();
    if (gradients)
        stop_job("DDP_STEP_PARAMETERS (%s:%d) of group %d, which has gradients, and DDP_STEP averages those: a group "
                 "has one of the two; annotate parameters without gradients after DDP_GRADIENT_GROUP with another id",
                 site->file, site->line, id);
    if (!parameters)
        stop_job("DDP_STEP_PARAMETERS (%s:%d) of group %d, which has no parameters: annotate them with DDP_PARAMETER "
                 "after DDP_GRADIENT_GROUP(%d)",
                 site->file, site->line, id, id);
    if (engine_state.options.reduction == DDPRUN_REDUCE_SUM)
        stop_job("DDP_STEP_PARAMETERS (%s:%d) with --reduce sum: a sum would multiply parameters by the number of "
                 "ranks; leave --reduce sum out",
                 site->file, site->line);
    if (engine_state.options.compression != DDPRUN_COMPRESS_NONE)
        stop_job("DDP_STEP_PARAMETERS (%s:%d) with --compress: parameters in 16 bits lose every update that is "
                 "smaller than their rounding; leave --compress out",
                 site->file, site->line);
}

/* Before anything of the step is done. */
static void
prepare_kind(int id, bool of_parameters, const struct ddp_site *site)
{
    struct group *group = &memory_state.groups[id];
    if (of_parameters)
        refuse_parameters(id, site);
    else if (group->of_parameters)
        stop_job("DDP_STEP (%s:%d) of group %d, whose parameters DDP_STEP_PARAMETERS averages: a group has one of the "
                 "two",
                 site->file, site->line, id);
    if (!of_parameters || group->of_parameters)
        return;
    if (!engine_state.alone) /* streams that touch them are remembered from now on */
        device_ensure_events();
    engine_lock();
    tensor_average_parameters(group);
    tensor_report_averaged(NULL);
    engine_unlock();
}

static void
refuse_capture(const struct group *group, const struct ddp_site *site)
{
    if (group->of_parameters)
        stop_job("DDP_STEP_PARAMETERS (%s:%d) stands in the capture of a CUDA graph, which ddprun does not follow: end "
                 "the capture before it, and call it after each launch",
                 site->file, site->line);
}

/* ---- the step ---- */

/* A world of one: there is no other rank to average with. */
static void
step_alone(int group, CUstream stream, const struct ddp_site *site)
{
    engine_lock();
    size_t in_group = 0;
    for (const struct tensor *tensor = tensor_next(NULL); tensor != NULL; tensor = tensor_next(tensor))
        in_group += tensor->averaged && tensor->group == group;
    tensor_report_averaged(NULL);
    engine_unlock();
    if (in_group == 0)
        stop_without_gradients(group, site);

    CUcontext before = context_enter(); /* of a thread that has none, the driver does not say what is captured */
    bool captured = stream_is_captured(stream);
    context_leave(before);
    if (captured)
        refuse_capture(&memory_state.groups[group], site);
    OBSERVED(boundary_begins, group, captured, site);
    weight_refuse_share(&memory_state.groups[group]);
    atomic_fetch_add(&engine_state.status->graph_step, captured); /* launches are not reported */
    engine_lock();
    memory_state.groups[group].weight = (struct weight){0, 0};
    if (!captured) {
        ++engine_state.boundary_count;
        step_report();
    }
    engine_unlock();
}

/* With lock held: whether kernels may have touched gradients of the group since its last boundary, unseen. */
static bool
is_touched_unseen(const struct group *group) WITH_LOCK
{
    bool reachable = false;
    for (size_t i = 0; i < group->gradient_count; ++i)
        reachable = reachable || tensor_gradient(group, i)->escaped;
    return reachable && group->hidden_streams != 0;
}

/* Ends the job where unseen work would be averaged. */
static void
refuse_blindness(const struct group *group, const struct ddp_site *site)
{
    step_refuse_unseen(site);

    /* Between the first two steps of a group stand an optimizer and a backward pass, which touch gradients. */
    engine_lock();
    bool idle = group->weight.total > 0 && group->weight.count == 0; /* it has no items */
    bool blind = group->boundary_count == 1 && group->touch_count == 0 && group->opaque_streams == 0 && !idle &&
                 !is_touched_unseen(group);
    engine_unlock();
    if (blind && !host_memory_may_change(group, site))
        stop_job("%s (%s:%d): no kernel, copy or library call has touched an annotated %s since the step before; do "
                 "the annotations name the memory that backward writes?",
                 group_step_name(group), site->file, site->line, group->of_parameters ? "parameter" : "gradient");
}

/* The same for steps that are captured: what the annotations say, on all ranks. Weights of captured steps are compared
 * later. */
static void
ensure_agreement(struct group *group, bool captured, const struct ddp_site *site)
{
    bool changed = LOCKED(memory_state.annotations_changed || memory_state.agreements == 0);
    if (changed && atomic_load(&engine_state.status->gradient_count) == 0)
        stop_without_gradients((int)(group - memory_state.groups), site);
    if (changed)
        agree_on_annotations(captured);
    if (LOCKED(group->gradient_count) == 0)
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
    if (LOCKED(captures_touch(group->places, group->gradient_count)))
        stop_job("%s (%s:%d) names a stream that is not captured, while work on %s is being captured: %s",
                 group_step_name(group), site->file, site->line, group->of_parameters ? "parameters" : "gradients",
                 group->of_parameters ? "end the capture before" : "name a stream of the capture, or end it before");
}

static void
step_together(struct group *group, CUstream stream, const struct ddp_site *site)
{
    int64_t exposed_ns, bound_ns;
    ensure_agreement(group, false, site);
    host_memory_begin(group);
    refuse_blindness(group, site);
    tensor_refuse_freed_parameters();
    refuse_step_outside(group, site);

    step_open(0, group_step_name(group), site);
    agree_on_boundary(group, site);
    host_memory_send(group);
    measure_promised(group, &exposed_ns, &bound_ns);
    CUevent done = measure_backward_done(group, stream);
    TRACED(trace_boundary(group, stream, done, exposed_ns, bound_ns));
    trials_backward_done(group, stream);
    uint64_t producers = step_wait_for_producers(group, stream);
    judgement_wait(JUDGED_IN_NEXT);
    launch_at_boundary(group, producers);
    buffers_send();
    bool compares = checks_parameters_due(group); /* until they are hashed */
    step_release(group, stream);
    CUevent released = measure_released(group, stream);
    TRACED(trace_released(group, stream, released));
    trials_released(group, stream);
    checks_after_release();
    nonfinite_stop();
    host_memory_end(group);
    if (compares)
        reduce_compare_at_boundary();
    TRACED(trace_checked(group, hashing_take_copied()));
    const bool waits =
        group_speculates(group) && !group->tried && !compares && engine_state.options.commit == DDPRUN_COMMIT_WAIT;
    struct weight weight = weight_of(group);
    weight_compare(&weight, compares);
    noise_boundary(weight.total > 0);
    planner_vote(group, step_close_interval(group, stream, false));
    trials_next_interval(group, stream);
    measure_next_interval(group, stream);
    noise_next_interval(group);
    commit_wait_next_interval(stream, waits);
    step_close();
    TRACED(trace_step_end(group, stream));
    role_give();
    launch_ready(); /* of the group whose boundary is next, buckets may have been ready all the while */
    judgement_end_step();
    TRACED(trace_step_returns());
}

static void
step_any(int group, bool of_parameters, void *stream, const struct ddp_site *site)
{
    const char *name = of_parameters ? "DDP_STEP_PARAMETERS" : "DDP_STEP";
    if (group < 0 || group >= GROUPS_AT_MOST)
        stop_job("%s_GROUP(%d, ...) (%s:%d): groups are numbered 0 to %d", name, group, site->file, site->line,
                 GROUPS_AT_MOST - 1);
    interval_refuse_step(name, site);
    annotations_drop_forgotten();
    prepare_kind(group, of_parameters, site);
    if (!turn_step(group, stream, site))
        return;
    unaveraged_step();
    flight_note_site(FLIGHT_BOUNDARY_BEGIN, (uint64_t)group, site);
    range_begin("%s, step %llu, group %d", name, (unsigned long long)engine_state.boundary_count + 1, group);
    if (engine_state.alone) {
        step_alone(group, stream, site);
        OBSERVED(boundary_ends, group);
    } else {
        device_refuse_after_reset(name, site);
        device_ensure_driver(site);
        CUcontext before = context_enter();
        context_require(stream, before, name, site);
        CUstreamCaptureMode mode = context_exchange_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
        struct capture *capture;
        enum capture_state state = capture_find(stream, &capture);
        if (state == CAPTURE_BROKEN)
            stop_job("%s (%s:%d) stands in a capture that has failed", name, site->file, site->line);
        if (state == CAPTURE_ACTIVE) {
            refuse_capture(&memory_state.groups[group], site);
            OBSERVED(boundary_begins, group, true, site);
            host_memory_refuse_capture(group, site);
            ensure_agreement(&memory_state.groups[group], true, site);
            capture_step(capture, &memory_state.groups[group], stream, site);
        } else {
            OBSERVED(boundary_begins, group, false, site);
            forgotten_step();
            step_together(&memory_state.groups[group], stream, site);
            OBSERVED(boundary_ends, group);
        }
        (void)context_exchange_capture_mode(mode);
        context_leave(before);
    }
    range_end();
    flight_note_site(FLIGHT_BOUNDARY_END, (uint64_t)group, site);
    step_is_training();
}

void
boundary_step(int group, void *stream, const struct ddp_site *site)
{
    step_any(group, false, stream, site);
}

void
boundary_step_parameters(int group, void *stream, const struct ddp_site *site)
{
    step_any(group, true, stream, site);
}
