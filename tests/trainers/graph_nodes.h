/*
 * graph_nodes.h - what trainers ask of a graph that they have captured.
 */
#ifndef TESTS_TRAINERS_GRAPH_NODES_H
#define TESTS_TRAINERS_GRAPH_NODES_H

#include "../lib/trainer.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <string.h>

static inline cudaKernelNodeParams
kernel_node(void *function, int blocks, int threads, void **arguments)
{
    cudaKernelNodeParams work = {0};
    work.func = function;
    work.gridDim = dim3(blocks);
    work.blockDim = dim3(threads);
    work.kernelParams = arguments;
    return work;
}

/* A node that follows no other. */
static inline void
add_kernel(cudaGraph_t graph, void *function, int blocks, int threads, void **arguments)
{
    cudaGraphNode_t node;
    cudaKernelNodeParams work = kernel_node(function, blocks, threads, arguments);
    CHECK(cudaGraphAddKernelNode(&node, graph, NULL, 0, &work));
}

/* Whether the node is a launch of a kernel with `part` in its name. */
static inline bool
is_named(CUgraphNode node, const char *part)
{
    CUgraphNodeType type;
    CUDA_KERNEL_NODE_PARAMS work;
    const char *name;
    CHECK(cuGraphNodeGetType(node, &type));
    if (type != CU_GRAPH_NODE_TYPE_KERNEL)
        return false;
    CHECK(cuGraphKernelNodeGetParams(node, &work));
    CHECK(cuFuncGetName(&name, work.func));
    return strstr(name, part) != NULL;
}

/* Whether the node is the other one or waits for it. */
static inline bool
comes_after(CUgraphNode node, CUgraphNode other)
{
    CUgraphNode before[64];
    size_t count = 64;
    if (node == other)
        return true;
    CHECK(cuGraphNodeGetDependencies_v2(node, before, NULL, &count));
    for (size_t i = 0; i < count; ++i) {
        if (comes_after(before[i], other))
            return true;
    }
    return false;
}

#endif
