/*
 * graph_launch.c - the launch of a graph in which DDP_STEP was captured: a step, or as many as it has.
 *
 * On the device a launch comes after all of the engine's work that was enqueued before it, and after all work on
 * gradients, on whatever stream; and all of the engine's work that comes later waits for it. So collectives outside and
 * inside of graphs are in one order. On the host no rank waits: ranks ask each other what comes only where it was not
 * to be expected from what came before (bucketing/sequence.h). One rank that launches a graph while another makes a
 * step outside would otherwise reduce other buckets than it.
 *
 * The issuer has its role from launch_begin() to launch_end(), over the driver's call.
 */
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/report/report.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/verify/verify.h"

/* ---- before ---- */

/* Whether the address of a gradient has escaped since the capture: kernels of the graph may reach it unseen. */
static void
refuse_stale(const struct recording *recording)
{
    const struct ddp_site *site = &recording->steps[0].site;
    if (LOCKED(recording->placements != engine_state.placements))
        stop_job(
            "a graph with DDP_STEP (%s:%d) is launched after gradients or buffers were annotated, freed or forgotten: "
            "capture it again",
            site->file, site->line);
    if (escape_certain_since(&recording->escapes, site))
        stop_job("a graph with DDP_STEP (%s:%d) is launched after a gradient's address was copied to the device, from "
                 "where its kernels may read it: copy it before the capture",
                 site->file, site->line);
}

/* Those that the graph has steps of, a bit for each. */
static uint32_t
groups_of(const struct recording *recording)
{
    uint32_t groups = 0;
    for (size_t i = 0; i < recording->step_count; ++i)
        groups |= UINT32_C(1) << recording->steps[i].group;
    return groups;
}

void
launch_begin(struct recording *recording, CUstream stream)
{
    const struct ddp_site *site = &recording->steps[0].site;
    struct group *first = &memory_state.groups[recording->steps[0].group];
    device_refuse_after_reset("DDP_STEP", site);
    interval_refuse_step("DDP_STEP", site);
    refuse_stale(recording);
    annotations_drop_forgotten();
    tensor_refuse_freed_parameters();
    step_refuse_unseen(site);
    for (size_t i = 0; i < recording->step_count; ++i) {
        const struct captured_step *step = &recording->steps[i];
        weight_refuse_launch(&memory_state.groups[step->group], &step->weight, &step->site);
    }

    ENTER_CONTEXT();
    RELAX_CAPTURES();
    step_open(recording->number, NULL, site);
    judgement_wait(JUDGED_IN_NEXT);
    (void)step_wait_for_producers(NULL, stream);
    nonfinite_launch(groups_of(recording));
    step_release(first, stream);
    nonfinite_stop();
}

/* ---- after ---- */

/* All of the engine's work that comes later waits for the launch. */
static void
follow_stream(CUstream stream) BY_ISSUER
{
    uint64_t mask = ISSUER_LOCKED(UINT64_C(1) << stream_index(stream));
    streams_wait_for_producers(mask, first_stream());
    CUDA("cuEventRecord", cuEventRecord, engine_state.reduced, first_stream());
}

/* The steps are passed; what the graph does after its last one is work of the next interval, on any gradient. */
static void
count_steps(const struct recording *recording, CUstream stream) BY_ISSUER
{
    for (size_t i = 0; i < recording->step_count; ++i) {
        const struct captured_step *step = &recording->steps[i];
        struct group *group = &memory_state.groups[step->group];
        issuer_lock();
        group->touch_count += step->touch_count;
        group->history.lost = true; /* what it did was not seen touch by touch */
        sequence_add(&memory_state.boundaries, group->id);
        issuer_unlock();
        (void)step_close_interval(group, stream, true);
        atomic_fetch_add(&engine_state.status->graph_step, 1);
        if (step->overlaps)
            atomic_fetch_add(&engine_state.status->overlapped_step, 1);
        TRACED(trace_captured_step(step->group, &step->shipment, recording->number, step->overlaps));
    }
    ++engine_state.graph_launches;
    issuer_lock();
    uint64_t mask = UINT64_C(1) << stream_index(stream);
    for (int g = 0; g < GROUPS_AT_MOST; ++g)
        memory_state.groups[g].opaque_streams |= memory_state.groups[g].gradient_count > 0 ? mask : 0;
    memory_state.buffer_streams |= recording->on_buffer ? mask : 0;
    memory_state.expected_group = groups_expected();
    issuer_unlock();
}

void
launch_end(struct recording *recording, CUstream stream, bool enqueued)
{
    const struct ddp_site *site = &recording->steps[0].site;
    if (!enqueued)
        stop_job("the driver has refused to launch a graph with DDP_STEP (%s:%d): the other ranks may have launched "
                 "theirs",
                 site->file, site->line);
    CUcontext before = context_enter();
    CUstreamCaptureMode mode = context_exchange_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    inflight_sending(RANK_WAIT_GRAPH, recording->number, 0);
    follow_stream(stream);
    inflight_sent(RANK_WAIT_GRAPH, recording->number, 0);
    checks_after_release();
    count_steps(recording, stream);
    step_close();
    role_give();
    judgement_end_step();
    (void)context_exchange_capture_mode(mode);
    context_leave(before);
    step_is_training();
}
