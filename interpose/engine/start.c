/*
 * start.c - the engine's beginning and its orderly end.
 *
 * Loaded by the shim into the process that is the rank. Everything that depends on CUDA waits for the first annotation
 * of memory.
 */
#include "base/share.h"
#include "base/status_page.h"
#include "interpose/engine/core/observer.h"
#include "interpose/engine/measure/measure.h"
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/report/report.h"
#include "interpose/engine/report/trace_file.h"
#include "interpose/engine/send/send.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/verify/verify.h"

#include "base/message.h"

#include <errno.h>
#include <unistd.h>

/* ---- options ---- */

static uint64_t
number_option(const char *variable, uint64_t fallback, uint64_t highest)
{
    const char *text = getenv(variable);
    if (text == NULL)
        return fallback;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value > highest || text[0] == '-')
        stop_job("%s=%s is not a number from 0 to %llu", variable, text, (unsigned long long)highest);
    return value;
}

/* Tests may have other buckets on one rank, the plan's buckets sent at DDP_STEP, trust from the first steps on, and no
 * trials. */
static void
read_options(const struct job_options *given)
{
    if (given->protocol != DDPRUN_PROTOCOL_VERSION)
        stop_job("launcher and engine are of different versions (%u and %d); reinstall ddprun", given->protocol,
                 DDPRUN_PROTOCOL_VERSION);
    engine_state.options = *given;
    engine_state.options.bucket_bytes = number_option(DDPRUN_ENV_BUCKET_BYTES, given->bucket_bytes, UINT64_MAX);
    engine_state.sends_at_step = number_option(DDPRUN_ENV_AT_STEP, 0, 1) == 1;
    engine_state.trust_after = number_option(DDPRUN_ENV_TRUST_AFTER, TRUST_AFTER, UINT64_MAX);
    if (number_option(DDPRUN_ENV_TRIALS, 1, 1) == 0)
        engine_state.off |= OFF_TRIALS;
}

/* ---- annotations that need no tensor ---- */

static void
shard(size_t total, size_t *first, size_t *count, const struct ddp_site *site)
{
    size_t world = (size_t)engine_state.rendezvous.world_size, rank = (size_t)engine_state.rendezvous.rank;
    if (!memory_is_usable(first, sizeof(*first), true) || !memory_is_usable(count, sizeof(*count), true))
        stop_job("DDP_SHARD of `%s` (%s:%d): %s; pass the addresses of two size_t", site->text, site->file, site->line,
                 first == NULL || count == NULL ? "a null pointer" : "not memory that this process can write");
    turn_refuse_share("DDP_SHARD", site);
    share_of(total, rank, world, first, count);
    OBSERVED(shard, total, first, count, site);
    share_note(engine_state.status, total, world);
    if (getpid() == engine_state.pid) /* another thread may have held its lock when this process was forked */
        weight_note_shard(total, total % world != 0 && rank == 0, site);
}

static void
weight(size_t count, size_t total, const struct ddp_site *site)
{
    turn_refuse_share("DDP_WEIGHT", site);
    weight_add(count, total, site);
}

static void
reduce(void *ptr, size_t count, int type, int op, void *stream, const struct ddp_site *site)
{
    turn_refuse_exchange("DDP_REDUCE", site);
    TRACED(trace_call_begins());
    reduce_memory(ptr, count, type, op, stream, site);
    TRACED(trace_call_ends());
}

static void
mean(const char *label, void *value, int type, const struct ddp_site *site)
{
    TRACED(trace_call_begins());
    host_value_mean(label, value, type, site);
    TRACED(trace_call_ends());
}

static int
any(volatile int *flag, const struct ddp_site *site)
{
    TRACED(trace_call_begins());
    int found = host_value_any(flag, site);
    TRACED(trace_call_ends());
    return found;
}

/* ---- memory comes and goes ---- */

static void
allocated(const CUdeviceptr *address, size_t bytes, enum memory_kind kind)
{
    turn_allocated(address, bytes);
    escape_allocated(address, bytes, kind);
}

/* The last batches of a round that is not complete, which ranks have trained their parameters with. */
static void
average_rest(void)
{
    static const struct ddp_site site = {"the last round", "the end of a round", 0};
    int group;
    while ((group = turn_take_rest()) >= 0)
        boundary_step_parameters(group, CU_STREAM_LEGACY, &site);
}

static void
before_release(CUdeviceptr address, size_t bytes)
{
    turn_released(address, bytes);
    if (turn_rest_is_in(address, bytes))
        average_rest();
    unmap_before_free(address, bytes);
}

static void
wait_begins(void)
{
    TRACED(trace_wait_begins());
}

static void
waited(void)
{
    commit_wait_close();
    speculation_await_verdict();
    TRACED(trace_call_ends());
}

static void
leaves(bool for_good)
{
    if (for_good)
        trust_share();
    waited();
}

static void
before_stream_destroy(CUstream stream)
{
    capture_abandoned(stream);
    streams_before_destroy(stream);
}

/* In the watch thread. */
static void
tell_launcher(void)
{
    unaveraged_tell();
    nonfinite_tell();
    forgotten_period();
}

/* ---- the end ---- */

/*
 * The last steps' averages need the other ranks: they have come, or this rank has not reached its end. Where parameters
 * are hashed that would show, and where communicators are closed; neither is sure.
 */
static void
wait_for_averages(void)
{
    if (!atomic_load(&engine_state.collectives_ready) || atomic_load(&engine_state.context_ended))
        return;
    speculation_await_verdict();
    if (atomic_load(&engine_state.captures_open) == 0) { /* waiting for the whole device would break them */
        context_synchronize("at the end");
        return;
    }
    for (unsigned i = 0; i < atomic_load(&engine_state.collectives.open_count); ++i)
        CUDA("waiting for the last averages", cuStreamSynchronize, engine_state.collectives.communicators[i].stream);
}

/* The end on the device: last hashes, trace, communicator. Once. */
static void
close_device(void)
{
    if (!atomic_load(&engine_state.collectives_ready) || atomic_exchange(&engine_state.device_closed, true))
        return;
    ENTER_CONTEXT();
    wait_for_averages();
    checks_final_hash();
    TRACED(trace_close());
    nonfinite_close();
    watch_stop();
    /* NCCL waits in ncclCommFinalize until all graphs with its operations are destroyed, and few programs destroy
     * theirs: communicators that were captured end with the process. So do those that a rank has left. */
    if (atomic_load(&engine_state.graph_count) == 0 && !engine_state.alone_at_end)
        collectives_close(&engine_state.collectives);
}

static void
before_context_destroy(CUcontext context)
{
    functions_before_unload(); /* its modules go with it */
    functions_after_unload();
    if (!atomic_load(&engine_state.driver_ready) || context != engine_state.context || context_driver_is_gone())
        return;
    bool is_used = engine_state.context != NULL || atomic_load(&engine_state.collectives_ready);
    speculation_await_verdict();
    average_rest();
    if (is_used) /* else the program tries the device before it annotates anything */
        OBSERVED(program_ends);
    unaveraged_last_look(0, UINT64_MAX);
    close_device();
    unmap_before_free(1, SIZE_MAX - 1); /* all memory goes */
    if (is_used && !engine_state.alone)
        atomic_store(&engine_state.context_ended, true);
    else
        engine_state.context = NULL; /* what is annotated next may be in another */
}

static void
before_device_reset(CUdevice device)
{
    if (atomic_load(&engine_state.driver_ready) && device == engine_state.device)
        before_context_destroy(engine_state.context);
}

static void
take_leave(void)
{
    flight_note(FLIGHT_END, 0, 0, NULL);
    status_reach(RANK_STAGE_ENDED);
    control_close(&engine_state.control);
    rendezvous_close(&engine_state.rendezvous);
}

/* Ends the process with code 0, when all ranks have come here, without what exit() calls. */
static void __attribute__((noreturn)) leave(void)
{
    struct control_messages all;
    if (engine_state.rendezvous.world_size > 1 &&
        exchange_last(&engine_state.boundary_count, sizeof(engine_state.boundary_count), &all))
        control_free_messages(&all);
    watch_stop();
    stop_if_asked();
    take_leave();
    _exit(0);
}

/* The last words of a rank whose program ends well. */
static void
end_in_order(void)
{
    static _Atomic bool ended;
    if (atomic_exchange(&ended, true))
        return;
    turn_refuse_end();
    average_rest();
    atomic_store(&engine_state.status->ends, 1);
    OBSERVED(program_ends);
    unaveraged_refuse_end();
    if (!engine_state.alone) {
        CUcontext before = atomic_load(&engine_state.context_ended) ? NULL : context_enter();
        if (atomic_load(&engine_state.captures_open) > 0 && engine_state.rendezvous.rank == 0)
            message_warning("ends_in_capture",
                            "the program ends within a capture: what its last steps made of the parameters is not "
                            "compared");
        wait_for_averages();
        stop_if_asked();
        checks_final_hash();
        nonfinite_stop_at_end();
        if (checks_at_end())
            launch_rest_at_end();
        close_device();
        if (!atomic_load(&engine_state.context_ended))
            context_leave(before);
    }
    watch_stop();
    stop_if_asked(); /* the last comparisons may have failed */
    take_leave();
}

/* The program ends with another exit code. Calls no CUDA. */
static void
before_failure(void)
{
    stop_if_asked();
    nonfinite_tell();
}

static void
after_fork_in_child(void)
{
    control_close(&engine_state.control);
    rendezvous_forget();
}

/* ---- operations, where another library observes them ---- */

static void
begin_observed(struct operation *operation)
{
    if (touches_leave_out(operation)) {
        engine_state.observer->operation_left_out(operation);
        return;
    }
    engine_state.observer->operation_begins(operation);
    touches_follow(operation);
}

static void
end_observed(struct operation *operation, bool enqueued)
{
    touches_end(operation, enqueued);
    if (!operation->skip)
        engine_state.observer->operation_ends(operation, enqueued);
}

/* A world of one follows nothing, and leaves out what a region of turns does: the observer plays all of them. */
static void
begin_alone(struct operation *operation)
{
    if (touches_leave_out(operation))
        engine_state.observer->operation_left_out(operation);
    else
        engine_state.observer->operation_begins(operation);
}

static void
end_alone(struct operation *operation, bool enqueued)
{
    if (!operation->skip)
        engine_state.observer->operation_ends(operation, enqueued);
}

static void
allocated_alone(const CUdeviceptr *address, size_t bytes, enum memory_kind kind)
{
    (void)kind;
    turn_allocated(address, bytes);
}

static void
copied_alone(const void *source, size_t bytes, size_t pitch, size_t rows)
{
    engine_state.observer->copied(source, bytes, pitch, rows);
    turn_copies_from_host();
}

static void
observe(struct engine *shown)
{
    shown->begin = engine_state.alone ? begin_alone : begin_observed;
    shown->end = engine_state.alone ? end_alone : end_observed;
    if (engine_state.alone) {
        shown->allocated = allocated_alone;
        shown->copied_from_host = copied_alone;
    }
    engine_state.observer->shows(shown);
}

/* ---- who is notified of operations and buckets ---- */

static void
trace_operation(const struct operation *operation)
{
    const struct group *group = touches_complete(operation);
    trace_operation_begins(operation);
    if (group != NULL)
        trace_completes(group, operation->stream);
}

/* The bucket by the name of its first tensor. */
static void
begin_range(const struct group *group, size_t bucket, bool early) BY_ISSUER
{
    (void)early;
    const struct plan_bucket *of = &group->plan->buckets[bucket];
    const struct ddp_site site = ISSUER_LOCKED(tensor_gradient(group, group->plan->pieces[of->first].gradient)->site);
    range_begin("bucket %zu: %llu bytes, %s (%s:%d)%s", bucket, (unsigned long long)of->bytes, site.text,
                file_name_of(site.file), site.line, of->count > 1 ? " and others" : "");
}

static void
end_range(const struct group *group, size_t bucket, bool early)
{
    (void)group, (void)bucket, (void)early;
    range_end();
}

static const struct watcher watchers[WATCHES] = {
    [WATCH_UNAVERAGED] = {.operation_begins = unaveraged_launched, .operation_ends = unaveraged_ended},
    [WATCH_DUPLICATES] = {.operation_begins = duplicate_batch_copied, .bucket_begins = duplicate_batch_own_gradients},
    [WATCH_TRACE] = {.operation_begins = trace_operation,
                     .operation_ends = trace_operation_ends,
                     .bucket_ready = trace_bucket_ready,
                     .bucket_begins = trace_bucket_begin,
                     .bucket_ends = trace_bucket_end},
    [WATCH_RANGES] = {.bucket_begins = begin_range, .bucket_ends = end_range},
    [WATCH_NONFINITE] = {.bucket_begins = nonfinite_look},
    [WATCH_NOISE] = {.bucket_begins = noise_bucket_begins},
    [WATCH_FORGOTTEN] = {.operation_begins = forgotten_begin, .operation_ends = forgotten_end},
    [WATCH_COMMIT] = {.operation_begins = commit_wait_operation_begins, .operation_ends = commit_wait_operation_ends},
};

/* ---- the start ---- */

static struct engine engine = {
    .abi = ENGINE_ABI,
    .parameter = tensor_annotate_parameter,
    .gradient = tensor_annotate_gradient,
    .gradient_group = tensor_choose_group,
    .step = boundary_step,
    .step_parameters = boundary_step_parameters,
    .mean = mean,
    .any = any,
    .shard = shard,
    .forget = tensor_forget,
    .no_sync = interval_no_sync,
    .buffer = buffer_annotate,
    .gradient_ready = interval_gradient_ready,
    .state = tensor_annotate_state,
    .weight = weight,
    .turn_begin = region_begin,
    .turn_end = region_end,
    .turn_mine = region_is_mine,
    .turn_updates = region_updates,
    .reduce = reduce,
    .programs_end = exchange_programs_end,
    .begin = touches_begin,
    .end = touches_end,
    .allocated = allocated,
    .copied_from_host = touches_copied_from_host,
    .may_wait = unmap_may_wait,
    .wait_begins = wait_begins,
    .waits = serve_before_wait,
    .waited = waited,
    .leaves = leaves,
    .before_release = before_release,
    .before_stream_destroy = before_stream_destroy,
    .before_context_destroy = before_context_destroy,
    .before_device_reset = before_device_reset,
    .before_primary_release = unmap_before_primary_release,
    .tensor_map_encoded = tensor_map_encoded,
    .kernels_found = functions_kernels_found,
    .before_unload = unmap_before_unload,
    .after_unload = unmap_after_unload,
    .capture_begun = capture_begun,
    .capture_changes = capture_changes,
    .capture_ends = capture_ends,
    .capture_ended = capture_ended,
    .graph_cloned = graph_cloned,
    .graph_made = graph_made,
    .graph_updated = graph_updated,
    .graph_goes = graph_goes,
    .graph_gone = graph_gone,
    .graph_changes = graph_changes,
    .graph_nested = graph_nested,
    .node_changes = graph_node_changes,
    .after_fork_in_child = after_fork_in_child,
    .end_in_order = end_in_order,
};

__attribute__((visibility("default"))) const struct engine *ddprun_engine_start(const struct shim_services *services,
                                                                                struct rank_status *status);

__attribute__((visibility("default"))) const struct engine *
ddprun_engine_start(const struct shim_services *services, struct rank_status *status)
{
    struct comm_error error;
    engine_state.watchers = watchers;
    engine_state.before_wait = serve_before_wait;
    engine_state.serves = serve_request;
    engine_state.services = services;
    engine_state.status = status;
    engine_state.pid = getpid();
    message_warnings_to(&status->warnings, &status->step);
    stop_open(function_name);
    if (services->abi != ENGINE_ABI)
        return NULL;
    status_waits_at("the start");
    engine_state.status_count = (int)number_option(DDPRUN_ENV_STATUS_COUNT, 1, 1 << 20);
    engine_state.status_index = (int)number_option(DDPRUN_ENV_STATUS_INDEX, 0, 1 << 20);
    char *page = (char *)status - (size_t)engine_state.status_index * RANK_STATUS_STRIDE;
    read_options(status_page_options(page, engine_state.status_count));
    if (!rendezvous_open(&engine_state.rendezvous, engine_state.status_index, atomic_load(&status->generation),
                         (int)engine_state.options.timeout_s, &error))
        stop_job("%s", error.text);
    atomic_store(&status->sums, engine_state.options.reduction == DDPRUN_REDUCE_SUM);
    flight_note(FLIGHT_START, (uint64_t)engine_state.rendezvous.rank, 0, NULL);
    require_comm(
        control_open(&engine_state.control, &engine_state.rendezvous, (int)engine_state.options.timeout_s, &error),
        &error);
    status_waits_no_more();
    engine_state.alone = engine_state.rendezvous.world_size == 1;
    OBSERVED(opens, leave);
    if (engine_state.alone && engine_state.options.stop_on_nan)
        message_warning("stop_on_nan", "--stop-on-nan ends the job only for a DDP_MEAN that is NaN: one rank averages "
                                       "no gradients, and does not look at them");
    unaveraged_open((int64_t)number_option(DDPRUN_ENV_UNANNOTATED_MS, DDPRUN_DEFAULT_UNANNOTATED_MS, 1000000));
    ranges_open();
    trace_file_open();
    ending_open(end_in_order, before_failure);

    engine.rank = engine_state.rendezvous.rank;
    engine.world_size = engine_state.rendezvous.world_size;
    engine.local_rank = engine_state.rendezvous.local_rank;
    engine.watching = !engine_state.alone;
    if (engine.watching)
        watch_start(tell_launcher);
    if (engine_state.observer != NULL)
        observe(&engine);
    status_reach(RANK_STAGE_RANK);
    return &engine;
}
