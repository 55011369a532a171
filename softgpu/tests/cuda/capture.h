/*
 * capture.h - what the tests of captures and graphs share. For test programs of Check only.
 */
#ifndef TESTS_SOFTGPU_CUDA_CAPTURE_H
#define TESTS_SOFTGPU_CUDA_CAPTURE_H

#include "kernels.h"

#include <check.h>

static inline CUstream
begin(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    return stream;
}

static inline CUgraph
end(CUstream stream)
{
    CUgraph graph;
    OK(cuStreamEndCapture(stream, &graph));
    return graph;
}

static inline CUgraphExec
instantiate(CUgraph graph)
{
    CUgraphExec exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

/* Ends the capture; the graph is gone, its executable form stays. */
static inline CUgraphExec
end_and_instantiate(CUstream stream)
{
    CUgraph graph = end(stream);
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphDestroy(graph));
    return exec;
}

/* Launches, and waits for the end. */
static inline void
run_graph(CUgraphExec exec, CUstream stream)
{
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
}

static inline void
count_call(void *counter)
{
    atomic_fetch_add((atomic_int *)counter, 1);
}

#endif
