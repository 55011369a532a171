/*
 * annotations.c - what the macros of ddprun.h reach: struct ddp_interface, found by dlsym("ddprun_interface").
 *
 * Every function first makes sure that this process is the rank; an annotated process that is not ends with a message.
 * Questions (rank, world size, local rank, share) have no effect: each process of the rank gets the answer.
 */
#include "interpose/shim/shim.h"

#include "base/message.h"
#include "base/share.h"

#include <stdlib.h>
#include <unistd.h>

/* The engine, with the depth raised: what it calls is not the trainer's doing. NULL: not under ddprun. */
static const struct engine *
enter(const struct ddp_site *site)
{
    if (!shim_become_rank(site))
        return NULL;
    ++shim_depth;
    if (shim.engine->leaves != NULL)
        shim.engine->leaves(false);
    return shim.engine;
}

/* A stream of the program's. A caller without the macros, which say which one 0 is, means the legacy default stream. */
static void *
stream_of(void *stream)
{
    return stream != NULL ? stream : CU_STREAM_LEGACY;
}

/* A function of the interface, and the engine's that it calls. */
#define FORWARD(name, parameters, call)            \
    static void name parameters                    \
    {                                              \
        const struct engine *engine = enter(site); \
        if (engine != NULL) {                      \
            engine->call;                          \
            --shim_depth;                          \
        }                                          \
    }
FORWARD(parameter, (void *ptr, size_t count, int type, const struct ddp_site *site), parameter(ptr, count, type, site))
FORWARD(gradient, (void *ptr, size_t count, int type, const struct ddp_site *site), gradient(ptr, count, type, site))
FORWARD(step, (void *stream, const struct ddp_site *site), step(0, stream_of(stream), site))
FORWARD(gradient_group, (int id, const struct ddp_site *site), gradient_group(id, site))
FORWARD(step_group, (int id, void *stream, const struct ddp_site *site), step(id, stream_of(stream), site))
FORWARD(step_parameters, (int id, void *stream, const struct ddp_site *site),
        step_parameters(id, stream_of(stream), site))
FORWARD(mean, (float *value, const struct ddp_site *site), mean(NULL, value, DDP_FLOAT32, site))
FORWARD(mean_as, (const char *label, float *value, const struct ddp_site *site), mean(label, value, DDP_FLOAT32, site))
FORWARD(mean_of, (const char *label, void *value, int type, const struct ddp_site *site),
        mean(label, value, type, site))
FORWARD(weight, (size_t count, size_t total, const struct ddp_site *site), weight(count, total, site))
FORWARD(forget, (void *ptr, const struct ddp_site *site), forget(ptr, site))
FORWARD(no_sync, (int begins, const struct ddp_site *site), no_sync(begins, site))
FORWARD(turn_end, (uint64_t region, const struct ddp_site *site), turn_end(region, site))
FORWARD(buffer, (void *ptr, size_t count, int type, const struct ddp_site *site), buffer(ptr, count, type, site))
FORWARD(gradient_ready, (void *ptr, void *stream, const struct ddp_site *site),
        gradient_ready(ptr, stream_of(stream), site))
FORWARD(state, (void *ptr, size_t count, int type, const struct ddp_site *site), state(ptr, count, type, site))
FORWARD(reduce, (void *ptr, size_t count, int type, int op, void *stream, const struct ddp_site *site),
        reduce(ptr, count, type, op, stream_of(stream), site))

static int
any(volatile int *flag, const struct ddp_site *site)
{
    const struct engine *engine = enter(site);
    if (engine == NULL)
        return ddp_any_alone(flag);
    int found = engine->any(flag, site);
    --shim_depth;
    return found;
}

static uint64_t
turn_begin(const struct ddp_site *site)
{
    const struct engine *engine = enter(site);
    if (engine == NULL)
        return 0;
    uint64_t region = engine->turn_begin(site);
    --shim_depth;
    return region;
}

/* DDP_SYNC: of programs whose header still has it, for averages that --sync-every left out. */
static void
sync_now(void *stream, const struct ddp_site *site)
{
    (void)stream;
    (void)site;
}

/* The engine of a process that is the rank, or becomes it by a question, or is its forked child. NULL in other
 * processes of the rank (a data loader that Python has spawned, say): they know what the launcher has told all of them.
 */
static const struct engine *
known_engine(void)
{
    return shim.engine != NULL || shim_become_rank(&shim_question) ? shim.engine : NULL;
}

static void
shard(size_t total, size_t *first, size_t *count, const struct ddp_site *site)
{
    const struct engine *engine = known_engine();
    if (engine != NULL) {
        engine->shard(total, first, count, site);
        return;
    }
    int rank = shim_number_from(DDPRUN_ENV_RANK), world_size = shim_number_from(DDPRUN_ENV_WORLD_SIZE);
    struct rank_status *status = shim_map_status();
    bool is_known = rank >= 0 && world_size > rank && status != NULL;
    if (!is_known || first == NULL || count == NULL)
        return;
    share_of(total, (size_t)rank, (size_t)world_size, first, count);
    share_note(status, total, (size_t)world_size);
}

static int
told_number(const char *variable, int alone)
{
    int number = shim_number_from(variable);
    return number >= 0 ? number : alone;
}

/* `alone`: where the variable is gone. */
#define KNOWN(name, variable, alone)                                         \
    static int name(void)                                                    \
    {                                                                        \
        const struct engine *engine = known_engine();                        \
        return engine != NULL ? engine->name : told_number(variable, alone); \
    }
KNOWN(rank, DDPRUN_ENV_RANK, 0)
KNOWN(local_rank, DDPRUN_ENV_LOCAL_RANK, 0)

/* The rank's status notes the call: what the process computes from the number of ranks may differ from one process's,
 * and ddprun check reports such calls. */
static int
world_size(void)
{
    const struct engine *engine = known_engine();
    struct rank_status *status = atomic_load(&shim.status);
    if (engine == NULL)
        return told_number(DDPRUN_ENV_WORLD_SIZE, 1);
    if (status != NULL)
        atomic_store_explicit(&status->asks_world_size, 1, memory_order_relaxed);
    return engine->world_size;
}

static int
turn_mine(void)
{
    const struct engine *engine = known_engine();
    return engine == NULL || engine->turn_mine();
}

static int
turn_updates(void)
{
    const struct engine *engine = known_engine();
    return engine == NULL || engine->turn_updates();
}

static const struct ddp_interface interface = {
    .version = DDP_INTERFACE_VERSION,
    .parameter = parameter,
    .gradient = gradient,
    .step = step,
    .mean = mean,
    .shard = shard,
    .forget = forget,
    .rank = rank,
    .world_size = world_size,
    .local_rank = local_rank,
    .gradient_group = gradient_group,
    .step_group = step_group,
    .no_sync = no_sync,
    .buffer = buffer,
    .gradient_ready = gradient_ready,
    .state = state,
    .weight = weight,
    .mean_as = mean_as,
    .step_parameters = step_parameters,
    .sync = sync_now,
    .reduce = reduce,
    .mean_of = mean_of,
    .any = any,
    .turn_begin = turn_begin,
    .turn_end = turn_end,
    .turn_mine = turn_mine,
    .turn_updates = turn_updates,
};

/* The interface, or NULL when this process was not started by ddprun. `version` is that of the caller's header. */
__attribute__((visibility("default"))) const struct ddp_interface *ddprun_interface(unsigned version);

__attribute__((visibility("default"))) const struct ddp_interface *
ddprun_interface(unsigned version)
{
    if (!shim_in_job())
        return NULL;
    if (version > DDP_INTERFACE_VERSION) {
        message_line("the program was built with a newer ddprun.h (interface %u) than this ddprun serves (%u); "
                     "use the ddprun that the header came with",
                     version, DDP_INTERFACE_VERSION);
        _exit(DDPRUN_EXIT_FAILURE);
    }
    return &interface;
}
