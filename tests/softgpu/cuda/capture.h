/*
 * capture.h - what the tests of captures and graphs share. For test programs of Check only.
 */
#ifndef TESTS_SOFTGPU_CUDA_CAPTURE_H
#define TESTS_SOFTGPU_CUDA_CAPTURE_H

#include "kernels.h"

#include <check.h>

static inline CUevent
new_event(void)
{
    CUevent event;
    ck_assert_int_eq(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    return event;
}

static inline CUstream
begin(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    ck_assert_int_eq(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    return stream;
}

/* Ends the capture; the graph is gone, its executable form stays. */
static inline CUgraphExec
end_and_instantiate(CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphDestroy(graph), CUDA_SUCCESS);
    return exec;
}

static inline void
count_call(void *counter)
{
    atomic_fetch_add((atomic_int *)counter, 1);
}

#endif
