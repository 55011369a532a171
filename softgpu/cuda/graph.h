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
struct work *work_hold(struct work *work);

/* NULL without memory, and then the command is dropped. */
struct work *work_new(struct command *command);

struct node {
    _Atomic uint32_t magic;
    struct graph *graph;
    uint64_t id;   /* of what it does in its graph and in what was made from that: the same in clones */
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
    _Atomic bool capturing; /* work of a stream is captured into it: meanwhile it is not instantiated, nor destroyed */
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

/* The node behind a handle, of this type; NODE_NONE: of any. */
CUresult node_enter(CUgraphNode handle, int type, struct node **node_p) __attribute__((warn_unused_result));

/* cuGraphAdd...Node: takes the command. */
CUresult graph_add_node(CUgraphNode *node_out, CUgraph handle, const CUgraphNode *before, size_t count,
                        CUgraphNodeType type, struct command *command) __attribute__((warn_unused_result));

/* What the parameters of a kernel node describe. */
CUresult graph_kernel_command(const CUDA_KERNEL_NODE_PARAMS *parameters, struct command **command_p)
    __attribute__((warn_unused_result));
/* The same for a kernel node that has one. */
CUresult graph_kernel_command_again(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS *parameters,
                                    struct command **command_p) __attribute__((warn_unused_result));

/* A graph as a command that runs it, as it is now. */
CUresult exec_child_command(CUgraph graph, struct command **command_p) __attribute__((warn_unused_result));

/* Copies what fits; with NULL only counts. CUDA's convention of all getters of nodes. */
CUresult graph_copy_nodes(struct node *const *from, size_t have, CUgraphNode *to, size_t *count)
    __attribute__((warn_unused_result));

/* All nodes in `nodes` are of this graph. */
bool graph_has(const struct graph *graph, struct node *const *nodes, size_t count);

/* ---- capture.c, for the API's calls ---- */

CUresult capture_begin(struct stream *stream, CUstreamCaptureMode mode) __attribute__((warn_unused_result));
/* Into the program's graph: the first work comes after `before`, nodes of it. */
CUresult capture_begin_in(struct stream *stream, struct graph *graph, struct node *const *before, size_t count,
                          CUstreamCaptureMode mode) __attribute__((warn_unused_result));
/* The graph is the caller's; none on failure, and a graph of the program's stays with what it has got. */
CUresult capture_end(struct stream *stream, struct graph **graph_p) __attribute__((warn_unused_result));

/* What the caller does not ask for is NULL, but status is always asked for. The arrays live until the next call on the
 * stream. */
struct capture_info {
    CUstreamCaptureStatus *status;
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **nodes;
    const CUgraphEdgeData **edges;
    size_t *count;
};
void capture_look(struct stream *stream, const struct capture_info *info);

/* Sets or extends what the stream's next work comes after: CUstreamUpdateCaptureDependencies_flags. */
CUresult capture_update(struct stream *stream, struct node *const *nodes, size_t count, unsigned flags)
    __attribute__((warn_unused_result));

#endif
