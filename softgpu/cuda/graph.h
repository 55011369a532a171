/*
 * graph.h - graphs of work, as capture.c builds them and graph.c runs them. Nothing outside this folder includes it.
 */
#ifndef SOFTGPU_CUDA_GRAPH_H
#define SOFTGPU_CUDA_GRAPH_H

#include "driver.h"

/* What a node does: a command that is run again and again. Shared by graphs and what was instantiated from them. */
struct work {
    _Atomic unsigned refs;
    struct command *command; /* NULL: an empty node */
};

void work_release(struct work *work);

struct node {
    _Atomic uint32_t magic;
    struct graph *graph;
    size_t number; /* place in its graph */
    CUgraphNodeType type;
    struct work *work;
    struct node **before; /* what it comes after: nodes of the same graph */
    size_t before_count;
    bool seen; /* for walks */
};

struct graph {
    _Atomic uint32_t magic;
    struct node **nodes;
    size_t count, room;
};

/* Sets or extends what the next work of a captured stream comes after. With capture.c's lock held. */
CUresult graph_tail_set(struct stream *stream, struct node *const *nodes, size_t count)
    __attribute__((warn_unused_result));
CUresult graph_tail_extend(struct stream *stream, struct node *const *nodes, size_t count)
    __attribute__((warn_unused_result));

/* driver_enter(), and the graph behind a handle. */
CUresult graph_enter(CUgraph handle, struct graph **graph_p) __attribute__((warn_unused_result));

/* NULL without memory. */
struct graph *graph_new(void);
void graph_delete(struct graph *graph);

/* Adds a node after `before`; takes the command, also on failure. */
CUresult graph_add(struct graph *graph, CUgraphNodeType type, struct command *command, struct node *const *before,
                   size_t count, struct node **node_p) __attribute__((warn_unused_result));

/* All nodes in `nodes` are of this graph. */
bool graph_has(const struct graph *graph, struct node *const *nodes, size_t count);

#endif
