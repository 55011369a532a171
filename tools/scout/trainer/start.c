/*
 * start.c - the recorder's beginning, and its end with the program: what the shim gets in the engine's place
 * (interpose/engine.h).
 *
 * In a world of one. Annotations are written down; nothing is averaged.
 */
#include "base/message.h"
#include "tools/plan/format/play.h"
#include "tools/scout/trainer/scout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pid_t own_pid;

/* ---- the end ---- */

/* The program ends by itself. */
static void
at_exit(int exit_status, void *unused)
{
    (void)exit_status, (void)unused;
    if (getpid() != own_pid)
        return;
    course_close_log(false, "the program ended");
    uint32_t stage = RANK_STAGE_RANK;
    (void)atomic_compare_exchange_strong(&scout_state.status->stage, &stage, RANK_STAGE_ENDED);
}

/* ---- annotations ---- */

static size_t
type_bytes(int type)
{
    static const size_t bytes[] = {[DDP_FLOAT32] = 4, [DDP_FLOAT64] = 8, [DDP_FLOAT16] = 2, [DDP_BFLOAT16] = 2,
                                   [DDP_INT32] = 4,   [DDP_INT64] = 8,   [DDP_UINT8] = 1};
    return type > 0 && (size_t)type < sizeof(bytes) / sizeof(bytes[0]) ? bytes[type] : 0;
}

static uint32_t chosen_group; /* by the trainer's thread that annotates */

static void
parameter(void *ptr, size_t count, int type, const struct ddp_site *site)
{
    record_annotation(SCOUT_SAYS_PARAMETER, 0, ptr, count * type_bytes(type), (uint32_t)type, site);
}

static void
gradient(void *ptr, size_t count, int type, const struct ddp_site *site)
{
    record_annotation(SCOUT_SAYS_GRADIENT, chosen_group, ptr, count * type_bytes(type), (uint32_t)type, site);
}

static void
gradient_group(int id, const struct ddp_site *site)
{
    (void)site;
    chosen_group = (uint32_t)id;
}

static void
step(int group, void *stream, const struct ddp_site *site)
{
    (void)stream;
    record_annotation(SCOUT_SAYS_STEP, (uint32_t)group, NULL, 0, 0, site);
}

static void
sync_parameters(void *stream, const struct ddp_site *site)
{
    (void)stream, (void)site;
}

/* Of one rank: what is there is the result. */
static void
reduce(void *ptr, size_t count, int type, int op, void *stream, const struct ddp_site *site)
{
    (void)ptr, (void)count, (void)type, (void)op, (void)stream, (void)site;
}

static void
buffer(void *ptr, size_t count, int type, const struct ddp_site *site)
{
    record_annotation(SCOUT_SAYS_BUFFER, 0, ptr, count * type_bytes(type), (uint32_t)type, site);
}

static void
state(void *ptr, size_t count, int type, const struct ddp_site *site)
{
    record_annotation(SCOUT_SAYS_STATE, 0, ptr, count * type_bytes(type), (uint32_t)type, site);
}

static void
mean(const char *label, void *value, int type, const struct ddp_site *site)
{
    (void)label, (void)value, (void)type, (void)site;
}

static void
shard(size_t total, size_t *first, size_t *count, const struct ddp_site *site)
{
    (void)site;
    *first = 0;
    *count = total;
}

static void
may_wait(bool loads)
{
    (void)loads;
}

static void
forget(void *ptr, const struct ddp_site *site)
{
    (void)ptr, (void)site;
}

static void
no_sync(int begins, const struct ddp_site *site)
{
    (void)begins, (void)site;
}

static void
gradient_ready(void *ptr, void *stream, const struct ddp_site *site)
{
    (void)ptr, (void)stream, (void)site;
}

static void
weight(size_t count, size_t total, const struct ddp_site *site)
{
    (void)count, (void)total, (void)site;
}

/* ---- memory, modules and graphs ---- */

static void
allocated(const CUdeviceptr *address, size_t bytes, enum memory_kind kind)
{
    if (address == NULL || course_now() == COURSE_OVER)
        return;
    scout_ensure_driver();
    scout_lock();
    allocations_add(*address, bytes, kind);
    scout_unlock();
}

static void
before_release(CUdeviceptr address, size_t bytes)
{
    if (course_now() == COURSE_OVER)
        return;
    scout_lock();
    allocations_remove(address, bytes);
    scout_unlock();
}

static void
stream_goes(CUstream stream)
{
    (void)stream;
}

static void
before_context_destroy(CUcontext context)
{
    (void)context;
    before_release(1, SIZE_MAX - 1);
    scout_lock();
    kernels_forget();
    scout_unlock();
}

static void
before_device_reset(CUdevice device)
{
    (void)device;
    before_context_destroy(NULL);
}

static void
before_primary_release(CUdevice device)
{
    (void)device;
}

static void
kernels_found(const CUkernel *kernels, unsigned room, CUlibrary library, bool done)
{
    (void)kernels, (void)room, (void)library, (void)done;
}

static void
before_unload(void)
{
}

static void
after_unload(void)
{
    scout_lock();
    kernels_forget();
    scout_unlock();
}

static void
module_loaded(const void *image, const char *path)
{
    if (course_now() == COURSE_OVER)
        return;
    scout_lock();
    modules_note(image, path);
    scout_unlock();
}

static void
tensor_map_encoded(CUdeviceptr address, bool done)
{
    (void)address, (void)done;
}

static void
capture_begun(CUstream stream, bool into_graph, bool done)
{
    (void)into_graph;
    scout_ensure_driver();
    record_capture_begun(stream, done);
}

static void
capture_changes(CUstream stream)
{
    (void)stream;
}

static void *
capture_ends(CUstream stream)
{
    (void)stream;
    return NULL;
}

static void
capture_ended(void *ended, const CUgraph *graph, bool done)
{
    (void)ended;
    record_capture_ended(graph, done);
}

static void
graph_cloned(CUgraph from, const CUgraph *clone, bool done)
{
    record_graph_made(from, (const CUgraphExec *)clone, done);
}

static void
graph_made(CUgraph from, const CUgraphExec *made, uint64_t flags, bool done)
{
    (void)flags;
    record_graph_made(from, made, done);
}

static void
graph_updated(CUgraphExec exec, CUgraph graph, bool done)
{
    record_graph_made(graph, &exec, done);
}

static void
graph_goes(void *handle)
{
    (void)handle;
}

static void
graph_gone(void *handle, bool done)
{
    (void)handle, (void)done;
}

static void
graph_changes(CUgraph graph, const char *call)
{
    (void)graph, (void)call;
}

static void
node_changes(CUgraphExec exec, CUgraphNode node, struct operation *work)
{
    (void)exec, (void)node, (void)work;
}

static void
after_fork_in_child(void)
{
}

/* ---- the start ---- */

static const struct engine engine = {
    .abi = ENGINE_ABI,
    .world_size = 1,
    .watching = true,
    .parameter = parameter,
    .gradient = gradient,
    .gradient_group = gradient_group,
    .step = step,
    .step_parameters = step,
    .sync = sync_parameters,
    .mean = mean,
    .shard = shard,
    .forget = forget,
    .no_sync = no_sync,
    .buffer = buffer,
    .gradient_ready = gradient_ready,
    .state = state,
    .weight = weight,
    .reduce = reduce,
    .begin = record_begin,
    .end = record_end,
    .allocated = allocated,
    .copied_from_host = record_host_content,
    .tensor_map_encoded = tensor_map_encoded,
    .may_wait = may_wait,
    .before_release = before_release,
    .before_stream_destroy = stream_goes,
    .before_context_destroy = before_context_destroy,
    .before_device_reset = before_device_reset,
    .before_primary_release = before_primary_release,
    .kernels_found = kernels_found,
    .before_unload = before_unload,
    .after_unload = after_unload,
    .module_loaded = module_loaded,
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
    .graph_nested = graph_changes,
    .node_changes = node_changes,
    .after_fork_in_child = after_fork_in_child,
};

static void
put_run(void)
{
    char arguments[4096], *list[256];
    size_t used = 0;
    struct scout_run run = {.ddprun = DDPRUN_VERSION, .device = "", .arguments = list};
    FILE *file = fopen("/proc/self/cmdline", "re");
    if (file != NULL) {
        used = fread(arguments, 1, sizeof(arguments) - 1, file);
        fclose(file);
    }
    arguments[used] = '\0';
    for (size_t at = 0; at < used && run.argument_count < sizeof(list) / sizeof(list[0]);
         at += strlen(arguments + at) + 1)
        list[run.argument_count++] = arguments + at;
    (void)scout_writer_put(&scout_state.log, SCOUT_RUN, &run);
}

__attribute__((visibility("default"))) const struct engine *ddprun_engine_start(const struct shim_services *services,
                                                                                struct rank_status *status);

__attribute__((visibility("default"))) const struct engine *
ddprun_engine_start(const struct shim_services *services, struct rank_status *status)
{
    const char *path = getenv(DDPRUN_ENV_SCOUT_RUN), *plan = getenv(DDPRUN_ENV_SCOUT_PLAY);
    scout_state.services = services;
    scout_state.status = status;
    scout_state.log.fd = -1;
    own_pid = getpid();
    if (services->abi != ENGINE_ABI)
        return NULL;
    if (plan != NULL && plan[0] != '\0')
        return play_start(services, status, plan);
    if (path == NULL || !scout_run_load(path, &scout_state.settings))
        scout_stop("cannot read what ddprun scout was asked for, in %s: %s", path != NULL ? path : DDPRUN_ENV_SCOUT_RUN,
                   strerror(path != NULL ? errno : ENOENT));
    scout_state.progress = scout_progress_map(scout_state.settings.progress, false);
    if (scout_state.progress == NULL)
        scout_stop("cannot open %s: %s", scout_state.settings.progress, strerror(errno));
    if (!scout_writer_open(&scout_state.log, scout_state.settings.log, -1))
        scout_stop("cannot open %s: %s", scout_state.settings.log, strerror(errno));
    put_run();
    if (on_exit(at_exit, NULL) != 0)
        scout_stop("out of memory");
    atomic_store(&scout_state.progress->stage, SCOUT_STAGE_LIGHT);
    atomic_store(&status->stage, RANK_STAGE_RANK);
    return &engine;
}
