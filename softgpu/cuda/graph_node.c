/*
 * graph_node.c - graphs put together and changed by hand: nodes for all kinds of work, dependencies,
 * clones, and what a node does. What was instantiated before keeps what it had; exec.c changes that.
 */
#include "copy.h"
#include "graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- nodes ---- */

CUresult
cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                     const CUDA_MEMCPY3D *copy, CUcontext context)
{
    (void)context; /* memory is the same in all */
    struct command *command;
    TRY(copy_command_new(copy, &command));
    return graph_add_node(node, graph, before, count, CU_GRAPH_NODE_TYPE_MEMCPY, command);
}

CUresult
cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                     const CUDA_MEMSET_NODE_PARAMS *parameters, CUcontext context)
{
    (void)context;
    struct command *command;
    TRY(fill_command_new(parameters, &command));
    return graph_add_node(node, graph, before, count, CU_GRAPH_NODE_TYPE_MEMSET, command);
}

/* The child as it is now: CUDA clones it too. */
CUresult
cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUgraph child)
{
    struct command *command;
    TRY(exec_child_command(child, &command));
    return graph_add_node(node, graph, before, count, CU_GRAPH_NODE_TYPE_GRAPH, command);
}

CUresult
graph_kernel_command(const CUDA_KERNEL_NODE_PARAMS *parameters, struct command **command_p)
{
    TRY(driver_enter());
    REQUIRE(parameters != NULL);
    CUlaunchConfig config = {.gridDimX = parameters->gridDimX,
                             .gridDimY = parameters->gridDimY,
                             .gridDimZ = parameters->gridDimZ,
                             .blockDimX = parameters->blockDimX,
                             .blockDimY = parameters->blockDimY,
                             .blockDimZ = parameters->blockDimZ,
                             .sharedMemBytes = parameters->sharedMemBytes};
    CUfunction function = parameters->func != NULL ? parameters->func : (CUfunction)parameters->kern;
    return launch_command_new(&config, function, parameters->kernelParams, parameters->extra, command_p);
}

CUresult
graph_kernel_command_again(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS *parameters, struct command **command_p)
{
    struct node *node;
    TRY(node_enter(handle, CU_GRAPH_NODE_TYPE_KERNEL, &node));
    TRY(graph_kernel_command(parameters, command_p));
    launch_command_inherit(*command_p, node->work->command);
    return CUDA_SUCCESS;
}

CUresult
cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                        const CUDA_KERNEL_NODE_PARAMS *parameters)
{
    struct command *command;
    TRY(graph_kernel_command(parameters, &command));
    return graph_add_node(node, graph, before, count, CU_GRAPH_NODE_TYPE_KERNEL, command);
}

CUresult
cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                   const CUDA_HOST_NODE_PARAMS *parameters)
{
    struct command *command;
    TRY(host_command_new(parameters, &command));
    return graph_add_node(node, graph, before, count, CU_GRAPH_NODE_TYPE_HOST, command);
}

static CUresult
add_event(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUgraphNodeType type,
          CUevent event)
{
    struct command *command;
    TRY(event_node_new(event, type, &command));
    return graph_add_node(node, graph, before, count, type, command);
}

CUresult
cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUevent event)
{
    return add_event(node, graph, before, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult
cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUevent event)
{
    return add_event(node, graph, before, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

static void
remove_before(struct node *node, size_t place)
{
    --node->before_count;
    memmove(node->before + place, node->before + place + 1, (node->before_count - place) * sizeof *node->before);
}

CUresult
cuGraphDestroyNode(CUgraphNode handle)
{
    struct node *node;
    TRY(node_enter(handle, NODE_NONE, &node));
    struct graph *graph = node->graph;
    for (size_t i = 0; i < graph->count; ++i) {
        for (size_t k = graph->nodes[i]->before_count; k-- > 0;) {
            if (graph->nodes[i]->before[k] == node) {
                remove_before(graph->nodes[i], k);
            }
        }
    }
    --graph->count;
    for (size_t i = node->number; i < graph->count; ++i) {
        graph->nodes[i] = graph->nodes[i + 1];
        graph->nodes[i]->number = i;
    }
    atomic_store(&node->magic, 0);
    work_release(node->work);
    free(node->before);
    object_give(OBJECT_NODE, node);
    return CUDA_SUCCESS;
}

/* ---- clones ---- */

CUresult
cuGraphClone(CUgraph *clone_out, CUgraph handle)
{
    struct graph *graph;
    TRY(graph_enter(handle, &graph));
    REQUIRE(clone_out != NULL);
    struct graph *clone = graph_new();
    for (size_t i = 0; clone != NULL && i < graph->count; ++i) {
        struct node *node;
        CUresult result = graph_add(clone, graph->nodes[i]->type, NULL, NULL, 0, &node);
        struct node **before = result == CUDA_SUCCESS
                                   ? realloc(node->before, (graph->nodes[i]->before_count + 1) * sizeof(struct node *))
                                   : NULL;
        if (before == NULL) {
            graph_delete(clone);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        node->before = before;
        work_release(node->work);
        node->work = work_hold(graph->nodes[i]->work);
        node->id = graph->nodes[i]->id;
    }
    REQUIRE_ELSE(clone != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < graph->count; ++i) { /* all are there now: a node may come after one with a larger number */
        const struct node *from = graph->nodes[i];
        for (size_t k = 0; k < from->before_count; ++k) {
            clone->nodes[i]->before[k] = clone->nodes[from->before[k]->number];
        }
        clone->nodes[i]->before_count = from->before_count;
    }
    *clone_out = (CUgraph)clone;
    return CUDA_SUCCESS;
}

CUresult
cuGraphNodeFindInClone(CUgraphNode *node_out, CUgraphNode handle, CUgraph clone_handle)
{
    struct node *node;
    struct graph *clone;
    TRY(node_enter(handle, NODE_NONE, &node));
    TRY(graph_enter(clone_handle, &clone));
    for (size_t i = 0; node_out != NULL && i < clone->count; ++i) {
        if (clone->nodes[i]->id == node->id) {
            *node_out = (CUgraphNode)clone->nodes[i];
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- dependencies ---- */

static size_t
find_before(const struct node *node, const struct node *before)
{
    size_t place = 0;
    while (place < node->before_count && node->before[place] != before) {
        ++place;
    }
    return place;
}

/* Checks the pairs of the two calls below, before anything is changed: added ones must be new, removed ones there. */
static CUresult
enter_pairs(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edges, size_t count,
            bool are_there)
{
    struct graph *graph;
    CUresult result = graph_enter(handle, &graph);
    if (result != CUDA_SUCCESS || count == 0) {
        return result;
    }
    REQUIRE(from != NULL && to != NULL && graph_has(graph, (struct node *const *)from, count) &&
            graph_has(graph, (struct node *const *)to, count));
    for (size_t i = 0; i < count; ++i) {
        const struct node *node = (const struct node *)to[i];
        bool is_there = find_before(node, (const struct node *)from[i]) < node->before_count;
        REQUIRE(from[i] != to[i] && is_there == are_there);
        if (edges != NULL && (edges[i].from_port != 0 || edges[i].to_port != 0 || edges[i].type != 0)) {
            say("cuGraphAddDependencies: only plain dependencies are supported");
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    return CUDA_SUCCESS;
}

CUresult
cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edges,
                          size_t count)
{
    TRY(enter_pairs(graph, from, to, edges, count, false));
    for (size_t i = 0; i < count; ++i) {
        struct node *node = (struct node *)to[i];
        struct node **before = realloc(node->before, (node->before_count + 2) * sizeof *before);
        REQUIRE_ELSE(before != NULL, CUDA_ERROR_OUT_OF_MEMORY);
        node->before = before;
        node->before[node->before_count++] = (struct node *)from[i];
    }
    return CUDA_SUCCESS;
}

CUresult
cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                             const CUgraphEdgeData *edges, size_t count)
{
    TRY(enter_pairs(graph, from, to, edges, count, true));
    for (size_t i = 0; i < count; ++i) {
        struct node *node = (struct node *)to[i];
        size_t place = find_before(node, (const struct node *)from[i]);
        if (place < node->before_count) { /* the same pair may be named twice */
            remove_before(node, place);
        }
    }
    return CUDA_SUCCESS;
}

CUresult
cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    return cuGraphAddDependencies_v2(graph, from, to, NULL, count);
}

CUresult
cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    return cuGraphRemoveDependencies_v2(graph, from, to, NULL, count);
}

CUresult
cuGraphGetEdges_v2(CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count)
{
    struct graph *graph;
    size_t have = 0;
    TRY(graph_enter(handle, &graph));
    REQUIRE(count != NULL && (from == NULL) == (to == NULL));
    for (size_t i = 0; i < graph->count; ++i) {
        for (size_t k = 0; k < graph->nodes[i]->before_count; ++k, ++have) {
            if (from != NULL && have < *count) {
                from[have] = (CUgraphNode)graph->nodes[i]->before[k];
                to[have] = (CUgraphNode)graph->nodes[i];
            }
        }
    }
    for (size_t i = have; from != NULL && i < *count; ++i) {
        from[i] = to[i] = NULL;
    }
    *count = from == NULL || have < *count ? have : *count;
    if (edges != NULL) {
        memset(edges, 0, *count * sizeof *edges); /* all are plain ones */
    }
    return CUDA_SUCCESS;
}

CUresult
cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return cuGraphGetEdges_v2(graph, from, to, NULL, count);
}

CUresult
cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *count)
{
    struct node *node;
    TRY(node_enter(handle, NODE_NONE, &node));
    const struct graph *graph = node->graph;
    struct node **found = malloc((graph->count + 1) * sizeof(struct node *));
    size_t have = 0;
    for (size_t i = 0; found != NULL && i < graph->count; ++i) {
        if (find_before(graph->nodes[i], node) < graph->nodes[i]->before_count) {
            found[have++] = graph->nodes[i];
        }
    }
    CUresult result = found == NULL ? CUDA_ERROR_OUT_OF_MEMORY : graph_copy_nodes(found, have, nodes, count);
    free(found);
    if (result == CUDA_SUCCESS && edges != NULL) {
        memset(edges, 0, *count * sizeof *edges);
    }
    return result;
}

CUresult
cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    return cuGraphNodeGetDependentNodes_v2(node, nodes, NULL, count);
}

/* ---- what a node does ---- */

/* Takes the command. */
static CUresult
set_work(CUgraphNode handle, CUgraphNodeType type, struct command *command)
{
    struct node *node;
    CUresult result = node_enter(handle, (int)type, &node);
    struct work *work = work_new(command);
    if (result == CUDA_SUCCESS && work == NULL) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS) {
        work_release(node->work);
        node->work = work;
    } else if (work != NULL) {
        work_release(work);
    }
    return result;
}

CUresult
cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS *parameters)
{
    struct node *node;
    TRY(node_enter(handle, CU_GRAPH_NODE_TYPE_KERNEL, &node));
    REQUIRE(parameters != NULL);
    launch_command_parameters(node->work->command, parameters);
    return CUDA_SUCCESS;
}

CUresult
cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters)
{
    struct command *command;
    TRY(graph_kernel_command_again(node, parameters, &command));
    return set_work(node, CU_GRAPH_NODE_TYPE_KERNEL, command);
}

CUresult
cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *copy)
{
    struct command *command;
    TRY(copy_command_new(copy, &command));
    return set_work(node, CU_GRAPH_NODE_TYPE_MEMCPY, command);
}

CUresult
cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *parameters)
{
    struct command *command;
    TRY(fill_command_new(parameters, &command));
    return set_work(node, CU_GRAPH_NODE_TYPE_MEMSET, command);
}

CUresult
cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *parameters)
{
    struct command *command;
    TRY(host_command_new(parameters, &command));
    return set_work(node, CU_GRAPH_NODE_TYPE_HOST, command);
}
