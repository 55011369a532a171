/*
 * test_graph.c - stream capture and graphs: captured work does not run, and each launch runs all of it in an order that
 * the capture's streams and events allow (random captures against a model; under SOFTGPU_CHAOS each launch in another
 * order); updates and destruction do not touch launches under way. What is forbidden during a capture is in
 * test_capture.c.
 */
#include "capture.h"

#include "tests/lib/test.h"

#include <cuda_runtime_api.h>

/* ---- all kinds of work ---- */

TEST_GROUP(all, .timeout_s = 100, .setup = use_device);

TEST(a_launch_runs_what_was_captured)
{
    enum { COUNT = 64 };
    CUfunction add = load_function(&add_image);
    CUdeviceptr values = device_memory(COUNT * sizeof(float)), copy = device_memory(COUNT * sizeof(float));
    float source[COUNT], seen[COUNT];
    atomic_int calls = 0;
    OK(cuMemsetD8(copy, 0, sizeof source));
    for (int i = 0; i < COUNT; ++i)
        source[i] = -1;
    CUstream stream = begin();
    OK(cuMemcpyHtoDAsync(values, source, sizeof source, stream));
    OK(cuMemsetD32Async(values, 0, COUNT / 2, stream));
    launch_add(add, stream, values, 2, COUNT);
    OK(cuLaunchHostFunc(stream, count_call, &calls));
    OK(cuMemcpyDtoDAsync(copy, values, sizeof source, stream));
    CUgraph graph = end(stream);
    OK(cuCtxSynchronize());
    ck_assert_int_eq(atomic_load(&calls), 0);
    static const CUgraphNodeType types[] = {CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET,
                                            CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_HOST,
                                            CU_GRAPH_NODE_TYPE_MEMCPY};
    CUgraphNode nodes[8], before[2];
    size_t count = 8, roots = 0, before_count = 2;
    OK(cuGraphGetNodes(graph, nodes, &count));
    ck_assert_uint_eq(count, 5);
    ck_assert_ptr_null(nodes[5]);
    for (size_t i = 0; i < count; ++i) {
        CUgraphNodeType type;
        OK(cuGraphNodeGetType(nodes[i], &type));
        ck_assert_int_eq(type, types[i]);
    }
    OK(cuGraphGetRootNodes(graph, NULL, &roots));
    ck_assert_uint_eq(roots, 1);
    OK(cuGraphNodeGetDependencies(nodes[3], before, NULL, &before_count));
    ck_assert_uint_eq(before_count, 1);
    ck_assert_ptr_eq(before[0], nodes[2]);
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphDestroy(graph));
    ck_assert_int_eq(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphUpload(exec, stream));
    for (int launch = 1; launch <= 3; ++launch) {
        for (int i = 0; i < COUNT; ++i)
            source[i] = (float)(launch * i); /* the host's memory is read when the graph runs */
        OK(cuGraphLaunch(exec, launch % 2 ? stream : NULL));
        OK(cuCtxSynchronize());
        ck_assert_int_eq(atomic_load(&calls), launch);
        OK(cuMemcpyDtoH(seen, copy, sizeof seen));
        for (int i = 0; i < COUNT; ++i)
            ck_assert_float_eq(seen[i], (i < COUNT / 2 ? 0 : source[i]) + 2);
    }
    OK(cuGraphExecDestroy(exec));
    ck_assert_int_eq(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
}

/* ---- random captures against a model ---- */

enum { STREAMS = 5, EVENTS = 4, OPERATIONS = 60, LAUNCHES = 3 };

static struct span spans[OPERATIONS];

LOOP_TEST(every_launch_keeps_the_captured_order, 0, 60)
{
    unsigned seed = (unsigned)_i;
    CUfunction span = load_function(&span_image);
    CUstream streams[STREAMS];
    CUevent events[EVENTS];
    uint64_t of_stream[STREAMS] = {0}, of_event[EVENTS] = {0}, before[OPERATIONS] = {0}, kernels = 0;
    bool captured[STREAMS] = {true}, recorded[EVENTS] = {false};
    for (int i = 0; i < STREAMS; ++i)
        streams[i] = new_stream(i % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < EVENTS; ++i)
        events[i] = new_event();
    OK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < OPERATIONS; ++i) {
        int stream = rand_r(&seed) % STREAMS, event = rand_r(&seed) % EVENTS, dice = rand_r(&seed) % 10;
        if (dice >= 7 && recorded[event]) {
            OK(cuStreamWaitEvent(streams[stream], events[event], 0));
            of_stream[stream] |= of_event[event];
            captured[stream] = true;
        } else if (dice >= 4 && captured[stream]) {
            OK(cuEventRecord(events[event], streams[stream]));
            of_event[event] = of_stream[stream];
            recorded[event] = true;
        } else if (captured[stream]) {
            launch_one(span, streams[stream], &spans[i]);
            before[i] = of_stream[stream];
            of_stream[stream] |= UINT64_C(1) << i;
            kernels |= UINT64_C(1) << i;
        }
    }
    for (int i = 1; i < STREAMS; ++i) { /* joined, or the capture would fail */
        if (captured[i]) {
            OK(cuEventRecord(events[0], streams[i]));
            OK(cuStreamWaitEvent(streams[0], events[0], 0));
        }
    }
    CUgraphExec exec = end_and_instantiate(streams[0]);
    for (int launch = 0; launch < LAUNCHES; ++launch) {
        memset(spans, 0, sizeof spans);
        run_graph(exec, streams[launch]);
        for (int i = 0; i < OPERATIONS; ++i) {
            for (int k = 0; k < OPERATIONS; ++k) {
                if (before[i] >> k & 1)
                    ck_assert_uint_lt(atomic_load(&spans[k].end), atomic_load(&spans[i].begin));
            }
            ck_assert_int_eq(atomic_load(&spans[i].end) != 0, kernels >> i & 1);
        }
    }
    OK(cuGraphExecDestroy(exec));
    for (int i = 0; i < STREAMS; ++i)
        OK(cuStreamDestroy(streams[i]));
    for (int i = 0; i < EVENTS; ++i)
        OK(cuEventDestroy(events[i]));
}

/* ---- dependencies by hand ---- */

TEST(a_capture_tells_and_takes_dependencies)
{
    CUstream stream = begin();
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph;
    CUgraphNode extra, first;
    const CUgraphNode *tail;
    size_t count;
    atomic_int calls = 0;
    OK(cuLaunchHostFunc(stream, count_call, &calls));
    OK(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &tail, NULL, &count));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ck_assert_uint_ne(id, 0);
    ck_assert_uint_eq(count, 1);
    first = tail[0];
    OK(cuGraphAddHostNode(&extra, graph, NULL, 0, &(CUDA_HOST_NODE_PARAMS){count_call, &calls}));
    OK(cuStreamUpdateCaptureDependencies(stream, &extra, NULL, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    OK(cuStreamGetCaptureInfo(stream, &status, NULL, NULL, &tail, NULL, &count));
    ck_assert_uint_eq(count, 2);
    OK(cuStreamUpdateCaptureDependencies(stream, &first, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    OK(cuStreamGetCaptureInfo(stream, &status, NULL, NULL, &tail, NULL, &count));
    ck_assert_uint_eq(count, 1);
    ck_assert_ptr_eq(tail[0], first);
    CUgraphExec exec = end_and_instantiate(stream);
    run_graph(exec, stream);
    ck_assert_int_eq(atomic_load(&calls), 2);
}

TEST(graphs_can_be_put_together)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode nodes[3], foreign = NULL;
    static struct span mine[2];
    struct span *pointers[2] = {&mine[0], &mine[1]};
    void *args[2][1] = {{&pointers[0]}, {&pointers[1]}};
    CUDA_KERNEL_NODE_PARAMS kernel = {load_function(&span_image), 1, 1, 1, 1, 1, 1, 0, args[0], NULL, NULL, NULL};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEmptyNode(&nodes[0], graph, NULL, 0));
    OK(cuGraphAddKernelNode(&nodes[1], graph, &nodes[0], 1, &kernel));
    kernel.kernelParams = args[1];
    ck_assert_int_eq(cuGraphAddKernelNode(&nodes[2], graph, &foreign, 1, &kernel), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphAddKernelNode(&nodes[2], graph, &nodes[1], 1, &kernel));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    ck_assert_uint_ne(atomic_load(&mine[0].end), 0);
    ck_assert_uint_lt(atomic_load(&mine[0].end), atomic_load(&mine[1].begin));
    ck_assert_int_eq(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
                     CUDA_ERROR_NOT_SUPPORTED);
    OK(cuGraphDestroy(graph));
}

/* ---- updates, and launches under way ---- */

static CUgraph
capture_add(CUfunction add, CUdeviceptr values, float by, int times)
{
    CUgraph graph;
    CUstream stream = begin();
    for (int i = 0; i < times; ++i)
        launch_add(add, stream, values, by, 1);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuStreamDestroy(stream));
    return graph;
}

TEST(updates_reach_later_launches_only)
{
    static atomic_int open;
    CUfunction add = load_function(&add_image);
    CUdeviceptr values = device_memory(sizeof(float));
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    float seen;
    OK(cuMemsetD32(values, 0, 1));
    CUgraph ones = capture_add(add, values, 1, 2), tens = capture_add(add, values, 10, 2),
            longer = capture_add(add, values, 10, 3);
    OK(cuGraphInstantiateWithFlags(&exec, ones, 0));
    CUstream first = new_stream(CU_STREAM_DEFAULT), second = new_stream(CU_STREAM_NON_BLOCKING);
    atomic_store(&open, 0);
    launch_one(load_function(&gate_image), first, &open);
    OK(cuGraphLaunch(exec, first));
    ck_assert_int_eq(cuGraphExecUpdate(exec, longer, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    ck_assert_int_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    OK(cuGraphExecUpdate(exec, tens, &info));
    ck_assert_int_eq(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    OK(cuGraphLaunch(exec, second)); /* after the first launch, in whatever stream */
    ck_assert_int_eq(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(ones));
    OK(cuGraphDestroy(tens));
    OK(cuGraphDestroy(longer));
    atomic_store(&open, 1);
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(&seen, values, sizeof seen));
    ck_assert_float_eq(seen, 22);
}

/* ---- event nodes: the same events in every launch anew ---- */

TEST(event_nodes_wait_and_record_in_every_launch)
{
    static atomic_int open;
    static struct span inside, outside;
    CUfunction span = load_function(&span_image);
    CUstream stream = begin(), gate = new_stream(CU_STREAM_NON_BLOCKING), after = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent wanted = new_event(), done = new_event(), timed[2];
    for (int i = 0; i < 2; ++i)
        OK(cuEventCreate(&timed[i], 0));
    OK(cuEventRecordWithFlags(timed[0], stream, CU_EVENT_RECORD_EXTERNAL));
    OK(cuStreamWaitEvent(stream, wanted, CU_EVENT_WAIT_EXTERNAL));
    launch_one(span, stream, &inside);
    OK(cuEventRecordWithFlags(done, stream, CU_EVENT_RECORD_EXTERNAL));
    OK(cuEventRecordWithFlags(timed[1], stream, CU_EVENT_RECORD_EXTERNAL));
    CUgraphExec exec = end_and_instantiate(stream);
    for (int launch = 0; launch < 4; ++launch) {
        float milliseconds = -1;
        memset(&inside, 0, sizeof inside);
        memset(&outside, 0, sizeof outside);
        atomic_store(&open, 0);
        launch_one(load_function(&gate_image), gate, &open);
        OK(cuEventRecord(wanted, gate));
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamWaitEvent(after, done, 0));
        launch_one(span, after, &outside);
        ck_assert_int_eq(cuEventQuery(done), CUDA_ERROR_NOT_READY);
        ck_assert_uint_eq(atomic_load(&inside.begin), 0);
        ck_assert_uint_eq(atomic_load(&outside.begin), 0);
        atomic_store(&open, 1);
        OK(cuStreamSynchronize(after));
        ck_assert_uint_lt(atomic_load(&inside.end), atomic_load(&outside.begin));
        ck_assert_uint_ne(atomic_load(&inside.end), 0);
        OK(cuEventSynchronize(timed[1]));
        OK(cuEventElapsedTime(&milliseconds, timed[0], timed[1]));
        ck_assert_float_gt(milliseconds, 0.05f); /* the kernel in between naps for 0.1 ms */
        ck_assert_float_lt(milliseconds, 20000);
    }
    OK(cuEventDestroy(wanted));
    ck_assert_int_eq(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE); /* one of its events is gone */
    OK(cuGraphExecDestroy(exec));
}

/* Into the stream's capture, after what it has: launches of a graph are not captured. */
static void
add_child(cudaStream_t stream, cudaGraph_t child)
{
    enum cudaStreamCaptureStatus status;
    cudaGraph_t graph;
    const cudaGraphNode_t *before;
    cudaGraphNode_t node;
    size_t count;
    OK(cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, &before, NULL, &count));
    OK(cudaGraphAddChildGraphNode(&node, graph, before, count, child));
    OK(cudaStreamUpdateCaptureDependencies(stream, &node, NULL, 1, cudaStreamSetCaptureDependencies));
}

TEST(graphs_nest_and_the_runtime_passes_them_on)
{
    atomic_int calls = 0;
    cudaStream_t stream;
    cudaGraph_t inner, outer;
    cudaGraphExec_t outer_exec;
    cudaGraphExecUpdateResultInfo info;
    size_t count = 0;
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaLaunchHostFunc(stream, count_call, &calls));
    OK(cudaStreamEndCapture(stream, &inner));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add_child(stream, inner);
    add_child(stream, inner);
    OK(cudaLaunchHostFunc(stream, count_call, &calls));
    OK(cudaStreamEndCapture(stream, &outer));
    OK(cudaGraphGetNodes(outer, NULL, &count));
    ck_assert_uint_eq(count, 3);
    OK(cudaGraphInstantiateWithFlags(&outer_exec, outer, 0));
    OK(cudaGraphExecUpdate(outer_exec, outer, &info));
    ck_assert_int_eq(cudaGraphExecUpdate(outer_exec, inner, &info), cudaErrorGraphExecUpdateFailure);
    OK(cudaGraphDestroy(inner));
    OK(cudaGraphDestroy(outer));
    for (int i = 0; i < 3; ++i)
        OK(cudaGraphLaunch(outer_exec, stream));
    OK(cudaStreamSynchronize(stream));
    ck_assert_int_eq(atomic_load(&calls), 9);
    OK(cudaGraphExecDestroy(outer_exec));
    OK(cudaStreamDestroy(stream));
}
