/* inner_engine.c - see player.h: the engine behind a player, and its table without what the program says itself. */
#include "interpose/filter.h"
#include "tools/common/idle.h"
#include "tools/plan/trainer/player.h"

#include <dlfcn.h>

static const struct engine *behind;
static bool holds; /* the engine's gradients */

/* A capture whose end has failed may still be open, and counts. */
static void
pass_capture_begun(CUstream stream, bool into_graph, bool done)
{
    captures_begin(done);
    behind->capture_begun(stream, into_graph, done);
}

static void
pass_capture_ended(void *ended, const CUgraph *graph, bool done)
{
    captures_end(done);
    behind->capture_ended(ended, graph, done);
}

void
inner_engine_hold(bool begins)
{
    static const struct ddp_site site = {"the plan", "ddprun --plan", 0};
    bool ends = holds && !begins;
    __atomic_store_n(&holds, begins, __ATOMIC_RELEASE);
    for (int sends = 1; ends && sends >= 0; --sends) /* when touches count again, what is complete is sent */
        behind->no_sync(sends, &site);
}

void
inner_engine_table(struct engine *table)
{
    *table = *behind;
    table->rank = 0;
    table->local_rank = 0;
    table->world_size = 1;
    table->watching = true;
    table->parameter = table->gradient = table->buffer = table->state = engine_idle.state;
    table->gradient_group = table->no_sync = engine_idle.no_sync;
    table->step = table->step_parameters = engine_idle.step;
    table->forget = engine_idle.forget;
    table->gradient_ready = engine_idle.gradient_ready;
    table->mean = engine_idle.mean;
    table->any = engine_idle.any;
    table->weight = engine_idle.weight;
    table->reduce = engine_idle.reduce;
    table->shard = engine_idle.shard;
    table->capture_begun = pass_capture_begun;
    table->capture_ended = pass_capture_ended;
}

/* The engine writes a filter that the hooks do not read: they are to report each launch. */
static const struct filter_kernel no_kernel = {.words = {FILTER_LIST_END}};
static struct filter_kernels no_kernels = {.mask = 0, .slot_count = 1, .slots = {&no_kernel}};
static struct filter unread_filter = {.kernels = &no_kernels};

const struct engine *
inner_engine_start(const struct shim_services *services, struct rank_status *status)
{
    static struct shim_services handed;
    handed = *services;
    handed.filter = &unread_filter;
    handed.by_plan = true;
    handed.holds = &holds;
    const char *path = getenv(DDPRUN_ENV_SCOUT_ENGINE);
    void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    engine_start_fn start = library != NULL ? (engine_start_fn)dlsym(library, ENGINE_ENTRY) : NULL;
    if (start == NULL)
        scout_stop("cannot load the engine, %s", path != NULL ? path : DDPRUN_ENV_SCOUT_ENGINE);
    behind = start(&handed, status);
    return behind != NULL && behind->abi == ENGINE_ABI ? behind : NULL;
}
