/*
 * idle.c - see idle.h. What a function that does nothing leaves alone is what its caller has: of one rank that is the
 * result.
 */
#include "tools/common/idle.h"

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
IDLE(reduce, (void *ptr, size_t count, int type, int op, void *stream, const struct ddp_site *site))

/* ---- memory and modules ---- */

IDLE(allocated, (const CUdeviceptr *address, size_t bytes, enum memory_kind kind))
IDLE(tensor_map_encoded, (CUdeviceptr address, bool done))
IDLE(may_wait, (bool loads))
IDLE(stream_changes, (CUstream stream))
IDLE(device_goes, (CUdevice device))
IDLE(kernels_found, (const CUkernel *kernels, unsigned room, CUlibrary library, bool done))
IDLE(nothing, (void))

/* ---- captures and graphs ---- */

static void *
idle_capture_ends(CUstream stream)
{
    return NULL;
}

IDLE(graph_cloned, (CUgraph from, const CUgraph *clone, bool done))
IDLE(graph_made, (CUgraph from, const CUgraphExec *made, uint64_t flags, bool done))
IDLE(graph_updated, (CUgraphExec exec, CUgraph graph, bool done))
IDLE(graph_goes, (void *handle))
IDLE(graph_gone, (void *handle, bool done))
IDLE(graph_changes, (CUgraph graph, const char *call))
IDLE(node_changes, (CUgraphExec exec, CUgraphNode node, struct operation *work))

const struct engine engine_idle = {
    .abi = ENGINE_ABI,
    .world_size = 1,
    .watching = true,
    .parameter = memory,
    .gradient = memory,
    .gradient_group = number,
    .step = step,
    .step_parameters = step,
    .mean = mean,
    .any = any,
    .shard = shard,
    .forget = pointer,
    .no_sync = number,
    .buffer = memory,
    .gradient_ready = gradient_ready,
    .state = memory,
    .weight = weight,
    .reduce = reduce,
    .allocated = allocated,
    .tensor_map_encoded = tensor_map_encoded,
    .may_wait = may_wait,
    .before_stream_destroy = stream_changes,
    .before_primary_release = device_goes,
    .kernels_found = kernels_found,
    .before_unload = nothing,
    .capture_changes = stream_changes,
    .capture_ends = idle_capture_ends,
    .graph_cloned = graph_cloned,
    .graph_made = graph_made,
    .graph_updated = graph_updated,
    .graph_goes = graph_goes,
    .graph_gone = graph_gone,
    .graph_changes = graph_changes,
    .graph_nested = graph_changes,
    .node_changes = node_changes,
    .after_fork_in_child = nothing,
    .end_in_order = nothing,
};
