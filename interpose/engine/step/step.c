/*
 * step.c - what every step has, outside of graphs (boundary.c) and in them (graph_launch.c): the issuer's role, what
 * comes is agreed on, producers are waited for, the trainer's stream is released, and the interval is closed.
 */
#include "interpose/engine/step/step.h"
#include "interpose/engine/verify/verify.h"

#include "base/clock.h"

/* With lock held, after boundary_count grew: for the launcher. Measuring the costs that plans need is start-up. */
void
step_report(void)
{
    static int64_t first_us;
    static bool has_plan;
    int64_t now_us = clock_now_us();
    struct rank_status *status = engine_state.status;
    if (first_us == 0 || (!has_plan && atomic_load(&status->bucket_count) > 0)) {
        first_us = now_us;
        has_plan = atomic_load(&status->bucket_count) > 0;
        atomic_store(&status->timed_steps, 0);
        atomic_store(&status->timed_ns, 0);
        atomic_store(&status->training_step, engine_state.boundary_count);
    }
    atomic_store(&status->training_us, (uint64_t)(now_us - first_us));
    atomic_store(&status->step, engine_state.boundary_count);
}

void
step_refuse_unseen(const struct ddp_site *site)
{
    const char *name = NULL;
    if (engine_state.services->unknown_calls(&name) > 0)
        stop_job(
            "the trainer calls %s, in a version or form that this ddprun cannot follow, so it may not see all work on "
            "gradients; use another form of the call, or a newer ddprun",
            name);
    if (atomic_load(&engine_state.operation_count) == 0 && tensor_any_on_device())
        stop_job("DDP_STEP (%s:%d): no kernel launch or copy has been seen so far: ddprun does not see this trainer's "
                 "calls of the CUDA driver",
                 site->file, site->line);
}

/* ---- what comes before the averages ---- */

void
step_open(uint64_t number, const char *what, const struct ddp_site *site)
{
    role_take();
    agree_wait_owed();
    agree_on_coming(number, what, site);
}

/* With lock held: the streams that touched the group's gradients since its last boundary. */
static uint64_t
streams_of(const struct group *group) WITH_LOCK
{
    uint64_t mask = group->opaque_streams | group->hidden_streams;
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        if (memory_state.tensors[i].group == group->id)
            mask |= memory_state.tensors[i].touched_by;
    }
    return mask;
}

uint64_t
step_wait_for_producers(const struct group *group, CUstream stream)
{
    bool looks = nonfinite_due(group), all = group == NULL || looks || checks_parameters_due(group);
    issuer_lock();
    uint64_t mask = memory_state.buffer_streams | UINT64_C(1) << stream_index(stream);
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        if (all || g == group->id)
            mask |= streams_of(&memory_state.groups[g]);
    }
    issuer_unlock();
    streams_wait_for_producers(mask, first_stream());
    return mask;
}

/* ---- what comes after them ---- */

void
step_release(const struct group *group, CUstream stream)
{
    range_begin("checks of step %llu", (unsigned long long)engine_state.boundary_count + 1);
    checks_before_release(group);
    range_end();
    CUDA("cuEventRecord", cuEventRecord, engine_state.reduced, first_stream());
    CUDA("waiting for the reduction", cuStreamWaitEvent, stream, engine_state.reduced, 0);
}

/* With lock held: the streams that a later boundary of some group must wait for. */
static uint64_t
streams_named(void) WITH_LOCK
{
    uint64_t mask = memory_state.buffer_streams;
    for (size_t i = 0; i < engine_state.tensor_count; ++i)
        mask |= memory_state.tensors[i].touched_by;
    for (int g = 0; g < GROUPS_AT_MOST; ++g)
        mask |= memory_state.groups[g].opaque_streams | memory_state.groups[g].hidden_streams;
    return mask;
}

bool
step_close_interval(struct group *group, CUstream stream, bool in_graph)
{
    issuer_lock();
    bool overlapped = group->overlapping;
    bool repeats = history_boundary(&group->history);
    if (in_graph)
        readiness_boundary_in_graph(&group->readiness);
    else
        readiness_boundary(&group->readiness);
    if (group->overlapping)
        readiness_learn_optional(&group->readiness, &group->history);
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        if (memory_state.tensors[i].group == group->id)
            memory_state.tensors[i].touched_by = 0;
    }
    group->opaque_streams = group->hidden_streams = memory_state.buffer_streams = 0;
    group->touch_count = 0;
    group->weight = (struct weight){0, 0};
    group->weighed_before = group->weighed;
    group->weighed = 0;
    ++group->boundary_count;
    ++engine_state.boundary_count;
    if (group->overlapping)
        ++group->overlapped_steps;
    if (overlapped && group->early_buckets > 0)
        atomic_fetch_add(&engine_state.status->overlapped_step, 1);
    group->early_buckets = 0;
    step_report(); /* before a vote: others look at it there */
    streams_forget(stream, streams_named());
    issuer_unlock();
    return repeats;
}

void
step_close(void)
{
    duplicate_batch_compare();
}

void
step_is_training(void)
{
    status_reach(RANK_STAGE_TRAINING);
}
