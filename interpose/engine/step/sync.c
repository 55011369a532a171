/*
 * sync.c - --sync-every K, local SGD: parameters, and states of float types, are averaged after every K-th update only,
 * and each rank updates its own in between.
 *
 * With DDP_STEP_PARAMETERS that is the K-th step itself. With DDP_STEP, whose update comes behind it, it is the step
 * after the K-th; gradients stay what this rank has computed. Called by boundary.c at each step; DDP_SYNC averages at
 * once. Steps are counted, not passes of backward.
 */
#include "interpose/engine/send/send.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/verify/verify.h"

#include "base/message.h"

/* ---- which steps average ---- */

bool
sync_is_due(const struct group *group)
{
    engine_lock();
    uint64_t every = engine_state.options.sync_every, passed = group->boundary_count;
    engine_unlock();
    if (every == 0)
        return true;
    return group->keeps_gradients ? passed > 0 && passed % every == 0 : (passed + 1) % every == 0;
}

void
sync_passed(struct group *group, bool averaged)
{
    if (engine_state.options.sync_every == 0)
        return;
    issuer_lock();
    group->unsynced = !averaged || group->keeps_gradients; /* whose update comes behind the step */
    issuer_unlock();
    if (!averaged)
        return;
    uint64_t bytes = 0;
    for (size_t k = 0; k < group->plan->bucket_count; ++k)
        bytes += group->plan->buckets[k].bytes;
    atomic_fetch_add(&engine_state.status->sync_count, 1);
    atomic_fetch_add(&engine_state.status->sync_bytes, bytes);
}

/* ---- what cannot be ---- */

void
sync_refuse(int group, const char *name, bool captured, const struct ddp_site *site)
{
    if (engine_state.options.sync_every == 0)
        return;
    if (captured)
        stop_job("%s (%s:%d) stands in the capture of a CUDA graph, and --sync-every averages after some steps only: "
                 "leave it out, or call the macro outside of the graph",
                 name, site->file, site->line);
    bool gradients = false, parameters = false, others = false;
    engine_lock();
    for (const struct tensor *tensor = NULL; (tensor = tensor_next(tensor)) != NULL;) {
        gradients = gradients || tensor->role == TENSOR_GRADIENT;
        parameters = parameters || tensor->role == TENSOR_PARAMETER;
        others = others || (tensor->role != TENSOR_BUFFER && tensor->group != group);
    }
    engine_unlock();
    if (others && gradients)
        stop_job("%s (%s:%d) with --sync-every, which averages the parameters of one group: leave --sync-every or "
                 "DDP_GRADIENT_GROUP out",
                 name, site->file, site->line);
    if (gradients && !parameters)
        stop_job("%s (%s:%d) with --sync-every, which averages parameters, and none is annotated: annotate them with "
                 "DDP_PARAMETER",
                 name, site->file, site->line);
}

/* ---- DDP_SYNC ---- */

/* Ends the job if ranks have come there after different numbers of steps. */
static void
compare_steps(const struct ddp_site *site)
{
    struct control_messages all;
    uint64_t mine = engine_state.boundary_count;
    exchange("a DDP_SYNC", &mine, sizeof(mine), &all);
    for (int r = 0; r < all.count; ++r) {
        const uint64_t *theirs = all.messages[r];
        if (*theirs != mine)
            stop_job(
                "DDP_SYNC (%s:%d) stands after %llu steps on rank %d and after %llu on rank %d: all ranks must call "
                "it in the same places",
                site->file, site->line, (unsigned long long)mine, engine_state.rendezvous.rank,
                (unsigned long long)*theirs, r);
    }
    control_free_messages(&all);
}

/* Streams that have waited for the last boundary have this average to wait for, too. */
static void
make_streams_wait(CUstream stream)
{
    engine_lock();
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i)
        engine_state.streams[i].waited_for = 0;
    engine_state.streams[stream_index(stream)].waited_for = engine_state.boundary_count;
    engine_unlock();
    atomic_fetch_add(&engine_state.stream_changes, 1);
}

static void
average(struct group *group, CUstream stream) BY_ISSUER
{
    host_memory_send(group);
    step_wait_for_producers(group, stream);
    for (size_t k = 0; k < group->plan->bucket_count; ++k)
        issue_bucket(group, k, false);
    streams_join();
    buffers_send();
    step_release(group, stream);
    checks_after_release();
    host_memory_end(group);
    sync_passed(group, true);
    issuer_lock();
    group->unsynced = false;
    issuer_unlock();
    make_streams_wait(stream);
}

void
boundary_sync(void *stream, const struct ddp_site *site)
{
    if (engine_state.alone || engine_state.options.sync_every == 0 || engine_state.boundary_count == 0)
        return;
    device_refuse_after_reset("DDP_SYNC", site);
    interval_refuse_step("DDP_SYNC", site);
    tensor_refuse_freed_parameters();
    CUcontext before = context_enter();
    context_require(stream, before, "DDP_SYNC", site);
    RELAX_CAPTURES();
    if (stream_is_captured(stream))
        stop_job("DDP_SYNC (%s:%d) stands in the capture of a CUDA graph: call it outside", site->file, site->line);
    if (LOCKED(memory_state.annotations_changed))
        agree_on_annotations(false);
    for (int g = 0; g < GROUPS_AT_MOST; ++g)
        host_memory_begin(&memory_state.groups[g]);
    step_open(0, "DDP_SYNC", site);
    compare_steps(site);
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        if (memory_state.groups[g].of_parameters && memory_state.groups[g].gradient_count > 0)
            average(&memory_state.groups[g], stream);
    }
    role_give();
    context_leave(before);
}

/* ---- the end ---- */

void
sync_warn_at_end(void)
{
    if (groups_are_unsynced() && engine_state.rendezvous.rank == 0)
        message_warning(
            "not_synced",
            "--sync-every %llu: the program ends after updates that were not averaged, so each rank ends with "
            "parameters of its own; call DDP_SYNC after the last update",
            (unsigned long long)engine_state.options.sync_every);
}
