/*
 * exec.h - what exec.c and exec_node.c share of instantiated graphs. Nothing outside this folder includes it.
 */
#ifndef SOFTGPU_CUDA_EXEC_H
#define SOFTGPU_CUDA_EXEC_H

#include "graph.h"

struct step {
    CUgraphNodeType type;
    uint64_t id; /* of the node */
    struct work *work;
    size_t *before; /* steps, by number */
    size_t before_count;
};

/* In the order of the graph's nodes. */
struct program {
    _Atomic unsigned refs;
    size_t count;
    bool has_events;
    size_t *order; /* of steps: one that their dependencies allow */
    struct step steps[];
};

struct exec {
    _Atomic uint32_t magic;
    unsigned long long flags;
    pthread_mutex_t lock; /* guards all below, over a launch */
    struct program *program;
    struct wait last; /* the last launch: the next one runs after it */
};

void program_release(struct program *program);

/* driver_enter(), and the exec behind a handle. */
CUresult exec_enter(CUgraphExec handle, struct exec **exec_p) __attribute__((warn_unused_result));

#endif
