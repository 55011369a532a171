/*
 * test_capture.c - what CUDA forbids while streams are captured fails with CUDA's error, and spoils the capture, which
 * reports that at its end; what it allows continues as if there were no capture.
 */
#include "capture.h"

#include "tests/lib/test.h"

static void
expect_status(CUstream stream, CUstreamCaptureStatus expected)
{
    CUstreamCaptureStatus status;
    OK(cuStreamIsCapturing(stream, &status));
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
    OK(cuLaunchHostFunc(stream, count_call, &calls));
    OK(cuStreamSynchronize(stream));
    ck_assert_int_eq(atomic_load(&calls), 1);
    OK(cuStreamDestroy(stream));
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
    OK(cuEventRecord(event, stream));
    ck_assert_int_eq(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    ck_assert_int_eq(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
    CUgraph graph = end(stream);
    OK(cuGraphDestroy(graph));
    OK(cuEventRecord(event, stream)); /* an ordinary one again */
    OK(cuEventSynchronize(event));
}

TEST(legacy_stream_and_blocking_captures_exclude_each_other)
{
    CUstreamCaptureStatus status;
    atomic_int calls = 0;
    ck_assert_int_eq(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUstream stream = new_stream(CU_STREAM_DEFAULT);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ck_assert_int_eq(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
    ck_assert_int_eq(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect_status(stream, CU_STREAM_CAPTURE_STATUS_ACTIVE); /* asking does no harm */
    ck_assert_int_eq(cuLaunchHostFunc(NULL, count_call, &calls), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect_spoiled(stream);
    stream = begin(); /* a non-blocking one: the legacy stream goes its way */
    OK(cuLaunchHostFunc(NULL, count_call, &calls));
    OK(cuStreamSynchronize(NULL));
    ck_assert_int_eq(atomic_load(&calls), 1);
    OK(cuGraphExecDestroy(end_and_instantiate(stream)));
}

TEST(forks_must_be_joined_and_captures_stay_apart)
{
    CUstream stream = begin(), fork = new_stream(CU_STREAM_DEFAULT), other = begin();
    CUevent event = new_event();
    CUgraph graph = (CUgraph)1;
    atomic_int calls = 0;
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(fork, event, 0));
    OK(cuLaunchHostFunc(fork, count_call, &calls));
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    ck_assert_ptr_null(graph);
    expect_status(fork, CU_STREAM_CAPTURE_STATUS_NONE);
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    ck_assert_int_eq(cuStreamWaitEvent(fork, event, 0), CUDA_ERROR_CAPTURED_EVENT); /* of a capture that is over */

    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(event, stream));
    ck_assert_int_eq(cuStreamWaitEvent(other, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    expect_spoiled(stream);
    expect_spoiled(other);

    stream = begin();
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(fork, event, 0));
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
        OK(graph == NULL ? cuMemFree(memory) : cuGraphExecDestroy(exec));
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
    CUdeviceptr memory = device_memory(1);
    CUgraph none = NULL, graph;
    if (_i == 1)
        OK(cuGraphCreate(&none, 0));
    CUstream stream = begin();
    ck_assert_int_eq(call_unsafe(none), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_spoiled(stream);
    stream = begin();
    ck_assert_int_eq(call_in_thread(none), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_spoiled(stream);
    stream = begin();
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    OK(call_unsafe(none));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    pthread_t thread;
    void *right;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_elsewhere, stream), 0);
    pthread_join(thread, &right);
    ck_assert_ptr_nonnull(right);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(call_in_thread(none));
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
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ck_assert_int_eq(cuGraphLaunch(exec, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_spoiled(stream);
    OK(cuGraphLaunch(exec, NULL));
    OK(cuGraphExecDestroy(exec));
}

/* ---- into a graph of the program's own ---- */

static void
note_span(void *data)
{
    static atomic_ulong clock;
    struct span *span = data;
    atomic_store(&span->begin, atomic_fetch_add(&clock, 1) + 1);
    atomic_store(&span->end, atomic_fetch_add(&clock, 1) + 1);
}

static CUgraphNode
add_span(CUgraph graph, struct span *span)
{
    const CUDA_HOST_NODE_PARAMS work = {.fn = note_span, .userData = span};
    CUgraphNode node;
    OK(cuGraphAddHostNode(&node, graph, NULL, 0, &work));
    return node;
}

static void
begin_in(CUstream stream, CUgraph graph, const CUgraphNode *before, size_t count)
{
    OK(cuStreamBeginCaptureToGraph(stream, graph, before, NULL, count, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

/* Captured work comes after the nodes that the call names, and the graph is the same one. */
TEST(a_graph_of_the_program_gets_captured_work)
{
    struct span spans[4] = {0};
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING), fork = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    CUgraph graph, captured = NULL;
    OK(cuGraphCreate(&graph, 0));
    const CUgraphNode nodes[] = {add_span(graph, &spans[0]), add_span(graph, &spans[1])};
    OK(cuGraphAddDependencies(graph, &nodes[1], &nodes[0], NULL, 1)); /* the later one comes first */

    begin_in(stream, graph, &nodes[0], 1);
    expect_status(stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(fork, event, 0));
    OK(cuLaunchHostFunc(fork, note_span, &spans[2]));
    OK(cuEventRecord(event, fork));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuStreamEndCapture(stream, &captured));
    ck_assert_ptr_eq(captured, graph);
    begin_in(stream, graph, NULL, 0); /* and once more */
    OK(cuLaunchHostFunc(stream, note_span, &spans[3]));
    OK(cuStreamEndCapture(stream, &captured));

    size_t count = 0, roots = 0;
    OK(cuGraphGetNodes(graph, NULL, &count));
    OK(cuGraphGetRootNodes(graph, NULL, &roots));
    ck_assert_uint_eq(count, 4);
    ck_assert_uint_eq(roots, 2);
    CUgraphExec exec = instantiate(graph);
    run_graph(exec, stream);
    ck_assert_uint_lt(spans[1].end, spans[0].begin);
    ck_assert_uint_lt(spans[0].end, spans[2].begin);
    ck_assert_uint_ne(spans[3].end, 0);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* What a fork comes after may be any node that is there: also one whose number is greater than that of a later one. */
TEST(forks_from_nodes_that_were_there_are_joined)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING), fork = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    CUgraph graph, captured;
    struct span spans[3] = {0};
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode first = add_span(graph, &spans[0]), second = add_span(graph, &spans[1]),
                third = add_span(graph, &spans[2]), from[] = {third, second}, to[] = {first, third};
    OK(cuGraphAddDependencies(graph, from, to, NULL, 2)); /* second, third, first */
    begin_in(stream, graph, &second, 1);
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(fork, event, 0));
    OK(cuStreamUpdateCaptureDependencies(stream, &first, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    OK(cuStreamEndCapture(stream, &captured));
    OK(cuGraphDestroy(graph));
}

TEST(a_graph_of_the_program_is_left_alone_while_it_is_captured_into)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph, unrelated, none = (CUgraph)1;
    CUgraphExec exec;
    atomic_int calls = 0;
    struct span span = {0};
    const CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    const CUgraphEdgeData edge = {0};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphCreate(&unrelated, 0));
    const CUgraphNode elsewhere = add_span(unrelated, &span), node = add_span(graph, &span);
    ck_assert_int_eq(cuStreamBeginCaptureToGraph(NULL, graph, NULL, NULL, 0, relaxed),
                     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(cuStreamBeginCaptureToGraph(stream, NULL, NULL, NULL, 0, relaxed), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 1, relaxed), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuStreamBeginCaptureToGraph(stream, graph, &elsewhere, NULL, 1, relaxed),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuStreamBeginCaptureToGraph(stream, graph, &node, &edge, 1, relaxed), CUDA_ERROR_NOT_SUPPORTED);
    expect_status(stream, CU_STREAM_CAPTURE_STATUS_NONE);

    OK(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, relaxed));
    ck_assert_int_eq(cuStreamBeginCaptureToGraph(other, graph, NULL, NULL, 0, relaxed), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuStreamBeginCaptureToGraph(stream, unrelated, NULL, NULL, 0, relaxed), CUDA_ERROR_ILLEGAL_STATE);
    ck_assert_int_eq(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    OK(cuLaunchHostFunc(stream, count_call, &calls));
    ck_assert_int_eq(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(cuStreamEndCapture(stream, &none), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ck_assert_ptr_null(none);
    OK(cuGraphDestroy(graph)); /* it is the program's, whatever became of the capture */
    OK(cuGraphDestroy(unrelated));
    ck_assert_int_eq(atomic_load(&calls), 0);
}
