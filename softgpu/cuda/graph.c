/*
 * graph.c - graphs and their nodes: made by captures, or put together by cuGraphAdd...Node. What is not here is refused
 * by name (lookup.c); exec.c runs them.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- work ---- */

void
work_release(struct work *work)
{
    if (atomic_fetch_sub(&work->refs, 1) == 1) {
        if (work->command != NULL) {
            command_drop(work->command);
        }
        free(work);
    }
}

struct work *
work_hold(struct work *work)
{
    atomic_fetch_add(&work->refs, 1);
    return work;
}

struct work *
work_new(struct command *command)
{
    struct work *work = malloc(sizeof *work);
    if (work == NULL) {
        if (command != NULL) {
            command_drop(command);
        }
        return NULL;
    }
    *work = (struct work){.refs = 1, .command = command};
    return work;
}

/* ---- graphs ---- */

struct graph *
graph_new(void)
{
    struct graph *graph = object_take(OBJECT_GRAPH, sizeof *graph);
    if (graph != NULL) {
        atomic_store(&graph->magic, MAGIC_GRAPH);
    }
    return graph;
}

void
graph_delete(struct graph *graph)
{
    for (size_t i = 0; i < graph->count; ++i) {
        struct node *node = graph->nodes[i];
        atomic_store(&node->magic, 0);
        work_release(node->work);
        free(node->before);
        object_give(OBJECT_NODE, node);
    }
    free(graph->nodes);
    atomic_store(&graph->magic, 0);
    object_give(OBJECT_GRAPH, graph);
}

static bool
make_room(struct graph *graph)
{
    if (graph->count < graph->room) {
        return true;
    }
    size_t room = graph->room == 0 ? 16 : graph->room * 2;
    struct node **nodes = realloc(graph->nodes, room * sizeof(struct node *));
    if (nodes == NULL) {
        return false;
    }
    graph->nodes = nodes;
    graph->room = room;
    return true;
}

CUresult
graph_add(struct graph *graph, CUgraphNodeType type, struct command *command, struct node *const *before, size_t count,
          struct node **node_p)
{
    struct node *node = object_take(OBJECT_NODE, sizeof *node);
    struct work *work = malloc(sizeof *work);
    struct node **copy = malloc((count + 1) * sizeof(struct node *));
    if (node == NULL || work == NULL || copy == NULL || !make_room(graph)) {
        if (node != NULL) {
            object_give(OBJECT_NODE, node);
        }
        free(work);
        free(copy);
        if (command != NULL) {
            command_drop(command);
        }
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *work = (struct work){.refs = 1, .command = command};
    if (count > 0) {
        memcpy(copy, before, count * sizeof(struct node *));
    }
    static _Atomic uint64_t last_id;
    node->id = atomic_fetch_add(&last_id, 1) + 1;
    node->graph = graph;
    node->number = graph->count;
    node->type = type;
    node->work = work;
    node->before = copy;
    node->before_count = count;
    atomic_store(&node->magic, MAGIC_NODE);
    graph->nodes[graph->count++] = node;
    *node_p = node;
    return CUDA_SUCCESS;
}

bool
graph_has(const struct graph *graph, struct node *const *nodes, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        if (nodes[i] == NULL || atomic_load(&nodes[i]->magic) != MAGIC_NODE || nodes[i]->graph != graph) {
            return false;
        }
    }
    return true;
}

/* ---- where a captured stream has got to ---- */

CUresult
graph_tail_set(struct stream *stream, struct node *const *nodes, size_t count)
{
    struct node **tail = malloc((count + 1) * sizeof(struct node *));
    REQUIRE_ELSE(tail != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    if (count > 0) {
        memcpy(tail, nodes, count * sizeof(struct node *));
    }
    free(stream->tail);
    stream->tail = tail;
    stream->tail_count = count;
    return CUDA_SUCCESS;
}

CUresult
graph_tail_extend(struct stream *stream, struct node *const *nodes, size_t count)
{
    struct node **tail = realloc(stream->tail, (stream->tail_count + count + 1) * sizeof(struct node *));
    REQUIRE_ELSE(tail != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    stream->tail = tail;
    for (size_t i = 0; i < count; ++i) {
        bool known = false;
        for (size_t k = 0; k < stream->tail_count && !known; ++k) {
            known = tail[k] == nodes[i];
        }
        if (!known) {
            tail[stream->tail_count++] = nodes[i];
        }
    }
    return CUDA_SUCCESS;
}

/* ---- handles ---- */

CUresult
graph_enter(CUgraph handle, struct graph **graph_p)
{
    CUresult result = driver_enter();
    struct graph *graph = (struct graph *)handle;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    REQUIRE(graph != NULL && atomic_load(&graph->magic) == MAGIC_GRAPH);
    *graph_p = graph;
    return CUDA_SUCCESS;
}

CUresult
cuGraphCreate(CUgraph *graph_out, unsigned int flags)
{
    TRY(driver_enter());
    REQUIRE(graph_out != NULL && flags == 0);
    struct graph *graph = graph_new();
    REQUIRE_ELSE(graph != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    *graph_out = (CUgraph)graph;
    return CUDA_SUCCESS;
}

CUresult
cuGraphDestroy(CUgraph handle)
{
    struct graph *graph;
    TRY(graph_enter(handle, &graph));
    REQUIRE(!atomic_load(&graph->capturing));
    graph_delete(graph);
    return CUDA_SUCCESS;
}

/* ---- nodes that a program adds itself ---- */

CUresult
graph_add_node(CUgraphNode *node_out, CUgraph handle, const CUgraphNode *before, size_t count, CUgraphNodeType type,
               struct command *command)
{
    struct graph *graph;
    CUresult result = graph_enter(handle, &graph);
    if (result == CUDA_SUCCESS &&
        (node_out == NULL || (count > 0 && before == NULL) || !graph_has(graph, (struct node *const *)before, count))) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result != CUDA_SUCCESS) {
        if (command != NULL) {
            command_drop(command);
        }
        return result;
    }
    struct node *node;
    result = graph_add(graph, type, command, (struct node *const *)before, count, &node);
    if (result == CUDA_SUCCESS) {
        *node_out = (CUgraphNode)node;
    }
    return result;
}

CUresult
cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count)
{
    return graph_add_node(node, graph, before, count, CU_GRAPH_NODE_TYPE_EMPTY, NULL);
}

/* ---- looking at graphs ---- */

CUresult
graph_copy_nodes(struct node *const *from, size_t have, CUgraphNode *to, size_t *count)
{
    REQUIRE(count != NULL);
    for (size_t i = 0; to != NULL && i < *count; ++i) {
        to[i] = i < have ? (CUgraphNode)from[i] : NULL;
    }
    *count = to == NULL || have < *count ? have : *count;
    return CUDA_SUCCESS;
}

CUresult
cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
    struct graph *graph;
    TRY(graph_enter(handle, &graph));
    return graph_copy_nodes(graph->nodes, graph->count, nodes, count);
}

CUresult
cuGraphGetRootNodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
    struct graph *graph;
    TRY(graph_enter(handle, &graph));
    struct node **roots = malloc((graph->count + 1) * sizeof(struct node *));
    size_t found = 0;
    for (size_t i = 0; roots != NULL && i < graph->count; ++i) {
        if (graph->nodes[i]->before_count == 0) {
            roots[found++] = graph->nodes[i];
        }
    }
    CUresult result = roots == NULL ? CUDA_ERROR_OUT_OF_MEMORY : graph_copy_nodes(roots, found, nodes, count);
    free(roots);
    return result;
}

CUresult
node_enter(CUgraphNode handle, int type, struct node **node_p)
{
    CUresult result = driver_enter();
    struct node *node = (struct node *)handle;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    REQUIRE(node != NULL && atomic_load(&node->magic) == MAGIC_NODE && (type == NODE_NONE || (int)node->type == type));
    *node_p = node;
    return CUDA_SUCCESS;
}

CUresult
cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type)
{
    struct node *node;
    CUresult result = node_enter(handle, NODE_NONE, &node);
    return ANSWER(result, type, node->type);
}

CUresult
cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode *nodes, size_t *count)
{
    struct node *node;
    TRY(node_enter(handle, NODE_NONE, &node));
    return graph_copy_nodes(node->before, node->before_count, nodes, count);
}

CUresult
cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *count)
{
    TRY(cuGraphNodeGetDependencies(handle, nodes, count));
    if (edges != NULL) {
        memset(edges, 0, *count * sizeof *edges); /* all are plain ones */
    }
    return CUDA_SUCCESS;
}
