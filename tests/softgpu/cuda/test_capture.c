/*
 * test_capture.c - what CUDA forbids while streams are captured fails with CUDA's error, and spoils the capture, which
 * reports that at its end; what it allows continues as if there were no capture.
 */
#include "capture.h"

#include "tests/test.h"

static void
expect_status(CUstream stream, CUstreamCaptureStatus expected)
{
    CUstreamCaptureStatus status;
    ck_assert_int_eq(cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
    ck_assert_int_eq(status, expected);
}

/* The capture is spoiled: nothing goes into it any more, its end reports that, and the stream is usable again. */
static void
expect_spoiled(CUstream stream)
{
    CUgraph graph = (CUgraph)1;
    atomic_int calls = 0;
    expect_status(stream, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    ck_assert_int_eq(cuLaunchHostFunc(stream, count_call, &calls), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ck_assert_ptr_null(graph);
    expect_status(stream, CU_STREAM_CAPTURE_STATUS_NONE);
    ck_assert_int_eq(cuLaunchHostFunc(stream, count_call, &calls), CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamSynchronize(stream), CUDA_SUCCESS);
    ck_assert_int_eq(atomic_load(&calls), 1);
    ck_assert_int_eq(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_GROUP(all, .timeout_s = 100, .setup = use_device);

TEST(waiting_spoils_a_capture)
{
    CUstream stream = begin();
    CUevent event = new_event();
    ck_assert_int_eq(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_spoiled(stream);
    stream = begin();
    ck_assert_int_eq(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_spoiled(stream);
    stream = begin();
    ck_assert_int_eq(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_spoiled(stream);
    stream = begin();
    ck_assert_int_eq(cuStreamWaitEvent(stream, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    expect_spoiled(stream);
    stream = begin();
    ck_assert_int_eq(cuEventRecord(event, stream), CUDA_SUCCESS);
    ck_assert_int_eq(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    ck_assert_int_eq(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
    CUgraph graph;
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphDestroy(graph), CUDA_SUCCESS);
    ck_assert_int_eq(cuEventRecord(event, stream), CUDA_SUCCESS); /* an ordinary one again */
    ck_assert_int_eq(cuEventSynchronize(event), CUDA_SUCCESS);
}

TEST(legacy_stream_and_blocking_captures_exclude_each_other)
{
    CUstreamCaptureStatus status;
    atomic_int calls = 0;
    ck_assert_int_eq(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUstream stream = new_stream(CU_STREAM_DEFAULT);
    ck_assert_int_eq(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
    ck_assert_int_eq(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect_status(stream, CU_STREAM_CAPTURE_STATUS_ACTIVE); /* asking does no harm */
    ck_assert_int_eq(cuLaunchHostFunc(NULL, count_call, &calls), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect_spoiled(stream);
    stream = begin(); /* a non-blocking one: the legacy stream goes its way */
    ck_assert_int_eq(cuLaunchHostFunc(NULL, count_call, &calls), CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamSynchronize(NULL), CUDA_SUCCESS);
    ck_assert_int_eq(atomic_load(&calls), 1);
    ck_assert_int_eq(cuGraphExecDestroy(end_and_instantiate(stream)), CUDA_SUCCESS);
}

TEST(forks_must_be_joined_and_captures_stay_apart)
{
    CUstream stream = begin(), fork = new_stream(CU_STREAM_DEFAULT), other = begin();
    CUevent event = new_event();
    CUgraph graph = (CUgraph)1;
    atomic_int calls = 0;
    ck_assert_int_eq(cuEventRecord(event, stream), CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamWaitEvent(fork, event, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuLaunchHostFunc(fork, count_call, &calls), CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    ck_assert_ptr_null(graph);
    expect_status(fork, CU_STREAM_CAPTURE_STATUS_NONE);
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    ck_assert_int_eq(cuStreamWaitEvent(fork, event, 0), CUDA_ERROR_CAPTURED_EVENT); /* of a capture that is over */

    ck_assert_int_eq(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    ck_assert_int_eq(cuEventRecord(event, stream), CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamWaitEvent(other, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    expect_spoiled(stream);
    expect_spoiled(other);

    stream = begin();
    ck_assert_int_eq(cuEventRecord(event, stream), CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamWaitEvent(fork, event, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamEndCapture(fork, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    expect_spoiled(stream);
    ck_assert_int_eq(atomic_load(&calls), 0);
}

static void *
end_elsewhere(void *stream)
{
    CUgraph graph;
    use_device();
    return cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD ? stream : NULL;
}

/* Calls that may not be made while captures forbid what may allocate. */
static CUresult
call_unsafe(CUgraph graph)
{
    CUdeviceptr memory;
    CUgraphExec exec;
    CUresult result = graph == NULL ? cuMemAlloc(&memory, 1) : cuGraphInstantiate(&exec, graph, 0);
    if (result == CUDA_SUCCESS)
        ck_assert_int_eq(graph == NULL ? cuMemFree(memory) : cuGraphExecDestroy(exec), CUDA_SUCCESS);
    return result;
}

static void *
call_elsewhere(void *graph)
{
    use_device();
    return (void *)(uintptr_t)call_unsafe(graph);
}

static CUresult
call_in_thread(CUgraph graph)
{
    pthread_t thread;
    void *result;
    ck_assert_int_eq(pthread_create(&thread, NULL, call_elsewhere, graph), 0);
    pthread_join(thread, &result);
    return (CUresult)(uintptr_t)result;
}

/* An allocation, and the instantiation of a graph. */
LOOP_TEST(modes_decide_about_unsafe_calls, 0, 2)
{
    CUdeviceptr memory;
    CUgraph none = NULL, graph;
    ck_assert_int_eq(cuMemAlloc(&memory, 1), CUDA_SUCCESS);
    if (_i == 1)
        ck_assert_int_eq(cuGraphCreate(&none, 0), CUDA_SUCCESS);
    CUstream stream = begin();
    ck_assert_int_eq(call_unsafe(none), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_spoiled(stream);
    stream = begin();
    ck_assert_int_eq(call_in_thread(none), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_spoiled(stream);
    stream = begin();
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    ck_assert_int_eq(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    ck_assert_int_eq(call_unsafe(none), CUDA_SUCCESS);
    ck_assert_int_eq(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    pthread_t thread;
    void *right;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_elsewhere, stream), 0);
    pthread_join(thread, &right);
    ck_assert_ptr_nonnull(right);
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphDestroy(graph), CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    ck_assert_int_eq(call_in_thread(none), CUDA_SUCCESS);
    ck_assert_int_eq(cuMemFree(memory), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_spoiled(stream);
    stream = begin();
    ck_assert_int_eq(cuMemAllocAsync(&memory, 1, stream), CUDA_ERROR_NOT_SUPPORTED); /* refused, and said */
    expect_spoiled(stream);
}

/* A graph is not launched into a capture: it may become a part of another by a node that the program adds. */
TEST(no_graph_is_launched_into_a_capture)
{
    CUstream stream = begin();
    CUgraphExec exec = end_and_instantiate(stream);
    ck_assert_int_eq(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphLaunch(exec, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_spoiled(stream);
    ck_assert_int_eq(cuGraphLaunch(exec, NULL), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}
