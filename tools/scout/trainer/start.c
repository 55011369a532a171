/*
 * start.c - the recorder's beginning and end: what the shim gets in the engine's place (interpose/engine.h). In a world
 * of one. Annotations are written down; nothing is averaged.
 */
#include "tools/common/direct.h"
#include "tools/common/idle.h"
#include "tools/plan/format/play.h"
#include "tools/scout/trainer/scout.h"

static pid_t own_pid;

/* ---- the end ---- */

/* At the program's exit, in the process that began it: closes the log. */
static void
at_exit(int exit_status, void *unused)
{
    (void)exit_status, (void)unused;
    if (getpid() != own_pid)
        return;
    course_close_log();
    uint32_t stage = RANK_STAGE_RANK;
    (void)atomic_compare_exchange_strong(&scout_state.status->stage, &stage, RANK_STAGE_ENDED);
}

/* ---- annotations ---- */

static uint32_t chosen_group; /* by the trainer's thread that annotates */

#define SAYS(name, kind, group)                                                                 \
    static void name(void *ptr, size_t count, int type, const struct ddp_site *site)            \
    {                                                                                           \
        const uint64_t bytes = count == DDP_WHOLE ? RECORD_WHOLE : count * element_bytes(type); \
        record_annotation(kind, group, ptr, bytes, (uint32_t)type, site);                       \
    }
SAYS(parameter, SCOUT_SAYS_PARAMETER, 0)
SAYS(gradient, SCOUT_SAYS_GRADIENT, chosen_group)

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

/* ---- memory and captures ---- */

/* The shim has allocated memory: it is known from here on. */
static void
allocated(const CUdeviceptr *address, size_t bytes, enum memory_kind kind)
{
    if (address == NULL || course_now() == COURSE_OVER)
        return;
    scout_ensure_driver();
    scout_lock();
    known_allocations_add(*address, bytes, kind);
    scout_unlock();
}

/* The shim is about to release memory; bytes 0: the allocation that begins there. */
static void
before_release(CUdeviceptr address, size_t bytes)
{
    if (course_now() == COURSE_OVER)
        return;
    scout_lock();
    known_allocations_remove(address, bytes);
    scout_unlock();
}

static void
after_unload(void)
{
    scout_lock();
    kernels_forget(false);
    scout_unlock();
}

/* All memory and kernels of the context go with it. */
static void
before_context_destroy(CUcontext context)
{
    (void)context;
    before_release(1, SIZE_MAX - 1);
    scout_lock();
    kernels_forget(true);
    scout_unlock();
}

static void
before_device_reset(CUdevice device)
{
    (void)device;
    before_context_destroy(NULL);
}

static void
on_capture_begun(CUstream stream, bool into_graph, bool done)
{
    (void)stream, (void)into_graph;
    scout_lock();
    captures_begin(done);
    scout_unlock();
}

static void
on_capture_ended(void *ended, const CUgraph *graph, bool done)
{
    (void)ended, (void)graph, (void)done;
    scout_lock();
    captures_end(true);
    scout_unlock();
}

/* ---- the start ---- */

/* What the shim gets. */
static const struct engine *
own_table(void)
{
    static struct engine table;
    table = engine_idle;
    table.parameter = parameter;
    table.gradient = gradient;
    table.gradient_group = gradient_group;
    table.step = step;
    table.step_parameters = step;
    table.begin = record_begin;
    table.end = record_end;
    table.allocated = allocated;
    table.copied_from_host = record_host_content;
    table.before_release = before_release;
    table.before_context_destroy = before_context_destroy;
    table.before_device_reset = before_device_reset;
    table.after_unload = after_unload;
    table.capture_begun = on_capture_begun;
    table.capture_ended = on_capture_ended;
    return &table;
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
    if (path == NULL || !direct_load(path, &scout_state.settings, sizeof(scout_state.settings)))
        scout_stop("cannot read what ddprun scout was asked for, in %s: %s", path != NULL ? path : DDPRUN_ENV_SCOUT_RUN,
                   strerror(path != NULL ? errno : ENOENT));
    scout_state.progress = direct_map(scout_state.settings.progress, sizeof(*scout_state.progress), false);
    if (scout_state.progress == NULL)
        scout_stop("cannot open %s: %s", scout_state.settings.progress, strerror(errno));
    if (!scout_writer_open(&scout_state.log, scout_state.settings.log, -1))
        scout_stop("cannot open %s: %s", scout_state.settings.log, strerror(errno));
    if (on_exit(at_exit, NULL) != 0)
        scout_stop("out of memory");
    atomic_store(&scout_state.progress->stage, SCOUT_STAGE_LIGHT);
    atomic_store(&status->stage, RANK_STAGE_RANK);
    return own_table();
}
