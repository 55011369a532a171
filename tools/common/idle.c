/*
 * idle.c - see idle.h. What a function that does nothing leaves alone is what its caller has: of one rank that is the
 * result.
 */
#include "tools/common/idle.h"

#include <stddef.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define IDLE(name, parameters)  \
    static void name parameters \
    {                           \
    }

/* ---- annotations ---- */

IDLE(memory, (void *ptr, size_t count, int type, const struct ddp_site *site))
IDLE(number, (int id, const struct ddp_site *site))
IDLE(step, (int group, void *stream, const struct ddp_site *site))
IDLE(pointer, (void *ptr, const struct ddp_site *site))
IDLE(mean, (const char *label, void *value, int type, const struct ddp_site *site))

static int
any(volatile int *flag, const struct ddp_site *site)
{
    return ddp_any_alone(flag);
}

static void
shard(size_t total, size_t *first, size_t *count, const struct ddp_site *site)
{
    *first = 0;
    *count = total;
}

IDLE(gradient_ready, (void *ptr, void *stream, const struct ddp_site *site))
IDLE(weight, (size_t count, size_t total, const struct ddp_site *site))

static uint64_t
turn_begin(const struct ddp_site *site)
{
    return 0;
}

static int
turn_is(void)
{
    return 1;
}

IDLE(turn_end, (uint64_t region, const struct ddp_site *site))
IDLE(reduce, (void *ptr, size_t count, int type, int op, void *stream, const struct ddp_site *site))

/* ---- operations ---- */

IDLE(begin, (struct operation * operation))
IDLE(end, (struct operation * operation, bool enqueued))
IDLE(copied_from_host, (const void *source, size_t bytes, size_t pitch, size_t rows))

/* ---- memory and modules ---- */

IDLE(allocated, (const CUdeviceptr *address, size_t bytes, enum memory_kind kind))
IDLE(tensor_map_encoded, (CUdeviceptr address, bool done))
IDLE(may_wait, (bool loads))
IDLE(before_release, (CUdeviceptr address, size_t bytes))
IDLE(stream_changes, (CUstream stream))
IDLE(context_goes, (CUcontext context))
IDLE(device_goes, (CUdevice device))
IDLE(kernels_found, (const CUkernel *kernels, unsigned room, CUlibrary library, bool done))
IDLE(nothing, (void))

/* ---- captures and graphs ---- */

static void *
idle_capture_ends(CUstream stream)
{
    return NULL;
}

IDLE(capture_begun, (CUstream stream, bool into_graph, bool done))
IDLE(capture_ended, (void *ended, const CUgraph *graph, bool done))
IDLE(graph_cloned, (CUgraph from, const CUgraph *clone, bool done))
IDLE(graph_made, (CUgraph from, const CUgraphExec *made, uint64_t flags, bool done))
IDLE(graph_updated, (CUgraphExec exec, CUgraph graph, bool done))
IDLE(graph_goes, (void *handle))
IDLE(graph_gone, (void *handle, bool done))
IDLE(graph_changes, (CUgraph graph, const char *call))
IDLE(node_changes, (CUgraphExec exec, CUgraphNode node, struct operation *work))

/* ---- the table: X(member, function) for each member of struct engine that is a function ---- */

#define ENGINE_FUNCTIONS(X)                   \
    X(parameter, memory)                      \
    X(gradient, memory)                       \
    X(gradient_group, number)                 \
    X(step, step)                             \
    X(step_parameters, step)                  \
    X(mean, mean)                             \
    X(any, any)                               \
    X(shard, shard)                           \
    X(forget, pointer)                        \
    X(no_sync, number)                        \
    X(buffer, memory)                         \
    X(gradient_ready, gradient_ready)         \
    X(state, memory)                          \
    X(weight, weight)                         \
    X(turn_begin, turn_begin)                 \
    X(turn_end, turn_end)                     \
    X(turn_mine, turn_is)                     \
    X(turn_updates, turn_is)                  \
    X(reduce, reduce)                         \
    X(programs_end, nothing)                  \
    X(begin, begin)                           \
    X(end, end)                               \
    X(allocated, allocated)                   \
    X(copied_from_host, copied_from_host)     \
    X(tensor_map_encoded, tensor_map_encoded) \
    X(may_wait, may_wait)                     \
    X(wait_begins, nothing)                   \
    X(waits, nothing)                         \
    X(waited, nothing)                        \
    X(leaves, may_wait)                       \
    X(before_release, before_release)         \
    X(before_stream_destroy, stream_changes)  \
    X(before_context_destroy, context_goes)   \
    X(before_device_reset, device_goes)       \
    X(before_primary_release, device_goes)    \
    X(kernels_found, kernels_found)           \
    X(before_unload, nothing)                 \
    X(after_unload, nothing)                  \
    X(capture_begun, capture_begun)           \
    X(capture_changes, stream_changes)        \
    X(capture_ends, idle_capture_ends)        \
    X(capture_ended, capture_ended)           \
    X(graph_cloned, graph_cloned)             \
    X(graph_made, graph_made)                 \
    X(graph_updated, graph_updated)           \
    X(graph_goes, graph_goes)                 \
    X(graph_gone, graph_gone)                 \
    X(graph_changes, graph_changes)           \
    X(graph_nested, graph_changes)            \
    X(node_changes, node_changes)             \
    X(after_fork_in_child, nothing)           \
    X(end_in_order, nothing)

#define ENGINE_NUMBER(member, function) NUMBER_OF_##member,
enum { ENGINE_FUNCTIONS(ENGINE_NUMBER) FUNCTION_COUNT };

/* A member that the table lacks would be a call of address 0 in a trainer. */
_Static_assert(sizeof(struct engine) == offsetof(struct engine, parameter) + FUNCTION_COUNT * sizeof(void (*)(void)),
               "engine_idle has a function for each member of struct engine");

#define ENGINE_MEMBER(member, function) .member = (function),
const struct engine engine_idle = {
    .abi = ENGINE_ABI, .world_size = 1, .watching = true, ENGINE_FUNCTIONS(ENGINE_MEMBER)};
