/*
 * test_graph.c - stream capture and graphs: captured work does not run, and each launch runs all of it in an order that
 * the capture's streams and events allow (random captures against a model; under SOFTGPU_CHAOS each launch in another
 * order); updates and destruction do not touch launches under way. What is forbidden during a capture is in
 * test_capture.c.
 */
#include "capture.h"

#include "tests/test.h"

#include <cuda_runtime_api.h>

/* ---- all kinds of work ---- */

static void
add_to(CUfunction add, CUstream stream, CUdeviceptr values, float by, unsigned count)
{
    void *args[] = {&values, &by, &count};
    ck_assert_int_eq(cuLaunchKernel(add, count, 1, 1, 1, 1, 1, 0, stream, args, NULL), CUDA_SUCCESS);
}

TEST_GROUP(all, .timeout_s = 100, .setup = use_device);

TEST(a_launch_runs_what_was_captured)
{
    enum { COUNT = 64 };
    CUfunction add = load_function(&add_image);
    CUdeviceptr values, copy;
    float source[COUNT], seen[COUNT];
    atomic_int calls = 0;
    ck_assert_int_eq(cuMemAlloc(&values, sizeof source), CUDA_SUCCESS);
    ck_assert_int_eq(cuMemAlloc(&copy, sizeof source), CUDA_SUCCESS);
    ck_assert_int_eq(cuMemsetD8(copy, 0, sizeof source), CUDA_SUCCESS);
    for (int i = 0; i < COUNT; ++i)
        source[i] = -1;
    CUstream stream = begin();
    ck_assert_int_eq(cuMemcpyHtoDAsync(values, source, sizeof source, stream), CUDA_SUCCESS);
    ck_assert_int_eq(cuMemsetD32Async(values, 0, COUNT / 2, stream), CUDA_SUCCESS);
    add_to(add, stream, values, 2, COUNT);
    ck_assert_int_eq(cuLaunchHostFunc(stream, count_call, &calls), CUDA_SUCCESS);
    ck_assert_int_eq(cuMemcpyDtoDAsync(copy, values, sizeof source, stream), CUDA_SUCCESS);
    CUgraph graph;
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    ck_assert_int_eq(cuCtxSynchronize(), CUDA_SUCCESS);
    ck_assert_int_eq(atomic_load(&calls), 0);
    static const CUgraphNodeType types[] = {CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET,
                                            CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_HOST,
                                            CU_GRAPH_NODE_TYPE_MEMCPY};
    CUgraphNode nodes[8], before[2];
    size_t count = 8, roots = 0, before_count = 2;
    ck_assert_int_eq(cuGraphGetNodes(graph, nodes, &count), CUDA_SUCCESS);
    ck_assert_uint_eq(count, 5);
    ck_assert_ptr_null(nodes[5]);
    for (size_t i = 0; i < count; ++i) {
        CUgraphNodeType type;
        ck_assert_int_eq(cuGraphNodeGetType(nodes[i], &type), CUDA_SUCCESS);
        ck_assert_int_eq(type, types[i]);
    }
    ck_assert_int_eq(cuGraphGetRootNodes(graph, NULL, &roots), CUDA_SUCCESS);
    ck_assert_uint_eq(roots, 1);
    ck_assert_int_eq(cuGraphNodeGetDependencies(nodes[3], before, NULL, &before_count), CUDA_SUCCESS);
    ck_assert_uint_eq(before_count, 1);
    ck_assert_ptr_eq(before[0], nodes[2]);
    CUgraphExec exec;
    ck_assert_int_eq(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphDestroy(graph), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuGraphUpload(exec, stream), CUDA_SUCCESS);
    for (int launch = 1; launch <= 3; ++launch) {
        for (int i = 0; i < COUNT; ++i)
            source[i] = (float)(launch * i); /* the host's memory is read when the graph runs */
        ck_assert_int_eq(cuGraphLaunch(exec, launch % 2 ? stream : NULL), CUDA_SUCCESS);
        ck_assert_int_eq(cuCtxSynchronize(), CUDA_SUCCESS);
        ck_assert_int_eq(atomic_load(&calls), launch);
        ck_assert_int_eq(cuMemcpyDtoH(seen, copy, sizeof seen), CUDA_SUCCESS);
        for (int i = 0; i < COUNT; ++i)
            ck_assert_float_eq(seen[i], (i < COUNT / 2 ? 0 : source[i]) + 2);
    }
    ck_assert_int_eq(cuGraphExecDestroy(exec), CUDA_SUCCESS);
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
    ck_assert_int_eq(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    for (int i = 0; i < OPERATIONS; ++i) {
        int stream = rand_r(&seed) % STREAMS, event = rand_r(&seed) % EVENTS, dice = rand_r(&seed) % 10;
        if (dice >= 7 && recorded[event]) {
            ck_assert_int_eq(cuStreamWaitEvent(streams[stream], events[event], 0), CUDA_SUCCESS);
            of_stream[stream] |= of_event[event];
            captured[stream] = true;
        } else if (dice >= 4 && captured[stream]) {
            ck_assert_int_eq(cuEventRecord(events[event], streams[stream]), CUDA_SUCCESS);
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
            ck_assert_int_eq(cuEventRecord(events[0], streams[i]), CUDA_SUCCESS);
            ck_assert_int_eq(cuStreamWaitEvent(streams[0], events[0], 0), CUDA_SUCCESS);
        }
    }
    CUgraphExec exec = end_and_instantiate(streams[0]);
    for (int launch = 0; launch < LAUNCHES; ++launch) {
        memset(spans, 0, sizeof spans);
        ck_assert_int_eq(cuGraphLaunch(exec, streams[launch]), CUDA_SUCCESS);
        ck_assert_int_eq(cuStreamSynchronize(streams[launch]), CUDA_SUCCESS);
        for (int i = 0; i < OPERATIONS; ++i) {
            for (int k = 0; k < OPERATIONS; ++k) {
                if (before[i] >> k & 1)
                    ck_assert_uint_lt(atomic_load(&spans[k].end), atomic_load(&spans[i].begin));
            }
            ck_assert_int_eq(atomic_load(&spans[i].end) != 0, kernels >> i & 1);
        }
    }
    ck_assert_int_eq(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    for (int i = 0; i < STREAMS; ++i)
        ck_assert_int_eq(cuStreamDestroy(streams[i]), CUDA_SUCCESS);
    for (int i = 0; i < EVENTS; ++i)
        ck_assert_int_eq(cuEventDestroy(events[i]), CUDA_SUCCESS);
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
    ck_assert_int_eq(cuLaunchHostFunc(stream, count_call, &calls), CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &tail, NULL, &count), CUDA_SUCCESS);
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ck_assert_uint_ne(id, 0);
    ck_assert_uint_eq(count, 1);
    first = tail[0];
    ck_assert_int_eq(cuGraphAddHostNode(&extra, graph, NULL, 0, &(CUDA_HOST_NODE_PARAMS){count_call, &calls}),
                     CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamUpdateCaptureDependencies(stream, &extra, NULL, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES),
                     CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamGetCaptureInfo(stream, &status, NULL, NULL, &tail, NULL, &count), CUDA_SUCCESS);
    ck_assert_uint_eq(count, 2);
    ck_assert_int_eq(cuStreamUpdateCaptureDependencies(stream, &first, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
                     CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamGetCaptureInfo(stream, &status, NULL, NULL, &tail, NULL, &count), CUDA_SUCCESS);
    ck_assert_uint_eq(count, 1);
    ck_assert_ptr_eq(tail[0], first);
    CUgraphExec exec = end_and_instantiate(stream);
    ck_assert_int_eq(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamSynchronize(stream), CUDA_SUCCESS);
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
    ck_assert_int_eq(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphAddEmptyNode(&nodes[0], graph, NULL, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphAddKernelNode(&nodes[1], graph, &nodes[0], 1, &kernel), CUDA_SUCCESS);
    kernel.kernelParams = args[1];
    ck_assert_int_eq(cuGraphAddKernelNode(&nodes[2], graph, &foreign, 1, &kernel), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuGraphAddKernelNode(&nodes[2], graph, &nodes[1], 1, &kernel), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphLaunch(exec, NULL), CUDA_SUCCESS);
    ck_assert_int_eq(cuCtxSynchronize(), CUDA_SUCCESS);
    ck_assert_uint_ne(atomic_load(&mine[0].end), 0);
    ck_assert_uint_lt(atomic_load(&mine[0].end), atomic_load(&mine[1].begin));
    ck_assert_int_eq(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
                     CUDA_ERROR_NOT_SUPPORTED);
    ck_assert_int_eq(cuGraphDestroy(graph), CUDA_SUCCESS);
}

/* ---- updates, and launches under way ---- */

static CUgraph
capture_add(CUfunction add, CUdeviceptr values, float by, int times)
{
    CUgraph graph;
    CUstream stream = begin();
    for (int i = 0; i < times; ++i)
        add_to(add, stream, values, by, 1);
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamDestroy(stream), CUDA_SUCCESS);
    return graph;
}

TEST(updates_reach_later_launches_only)
{
    static atomic_int open;
    CUfunction add = load_function(&add_image);
    CUdeviceptr values;
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    float seen;
    ck_assert_int_eq(cuMemAlloc(&values, sizeof seen), CUDA_SUCCESS);
    ck_assert_int_eq(cuMemsetD32(values, 0, 1), CUDA_SUCCESS);
    CUgraph ones = capture_add(add, values, 1, 2), tens = capture_add(add, values, 10, 2),
            longer = capture_add(add, values, 10, 3);
    ck_assert_int_eq(cuGraphInstantiateWithFlags(&exec, ones, 0), CUDA_SUCCESS);
    CUstream first = new_stream(CU_STREAM_DEFAULT), second = new_stream(CU_STREAM_NON_BLOCKING);
    atomic_store(&open, 0);
    launch_one(load_function(&gate_image), first, &open);
    ck_assert_int_eq(cuGraphLaunch(exec, first), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphExecUpdate(exec, longer, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    ck_assert_int_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    ck_assert_int_eq(cuGraphExecUpdate(exec, tens, &info), CUDA_SUCCESS);
    ck_assert_int_eq(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    ck_assert_int_eq(cuGraphLaunch(exec, second), CUDA_SUCCESS); /* after the first launch, in whatever stream */
    ck_assert_int_eq(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    ck_assert_int_eq(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphDestroy(ones), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphDestroy(tens), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphDestroy(longer), CUDA_SUCCESS);
    atomic_store(&open, 1);
    ck_assert_int_eq(cuCtxSynchronize(), CUDA_SUCCESS);
    ck_assert_int_eq(cuMemcpyDtoH(&seen, values, sizeof seen), CUDA_SUCCESS);
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
        ck_assert_int_eq(cuEventCreate(&timed[i], 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuEventRecordWithFlags(timed[0], stream, CU_EVENT_RECORD_EXTERNAL), CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamWaitEvent(stream, wanted, CU_EVENT_WAIT_EXTERNAL), CUDA_SUCCESS);
    launch_one(span, stream, &inside);
    ck_assert_int_eq(cuEventRecordWithFlags(done, stream, CU_EVENT_RECORD_EXTERNAL), CUDA_SUCCESS);
    ck_assert_int_eq(cuEventRecordWithFlags(timed[1], stream, CU_EVENT_RECORD_EXTERNAL), CUDA_SUCCESS);
    CUgraphExec exec = end_and_instantiate(stream);
    for (int launch = 0; launch < 4; ++launch) {
        float milliseconds = -1;
        memset(&inside, 0, sizeof inside);
        memset(&outside, 0, sizeof outside);
        atomic_store(&open, 0);
        launch_one(load_function(&gate_image), gate, &open);
        ck_assert_int_eq(cuEventRecord(wanted, gate), CUDA_SUCCESS);
        ck_assert_int_eq(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
        ck_assert_int_eq(cuStreamWaitEvent(after, done, 0), CUDA_SUCCESS);
        launch_one(span, after, &outside);
        ck_assert_int_eq(cuEventQuery(done), CUDA_ERROR_NOT_READY);
        ck_assert_uint_eq(atomic_load(&inside.begin), 0);
        ck_assert_uint_eq(atomic_load(&outside.begin), 0);
        atomic_store(&open, 1);
        ck_assert_int_eq(cuStreamSynchronize(after), CUDA_SUCCESS);
        ck_assert_uint_lt(atomic_load(&inside.end), atomic_load(&outside.begin));
        ck_assert_uint_ne(atomic_load(&inside.end), 0);
        ck_assert_int_eq(cuEventSynchronize(timed[1]), CUDA_SUCCESS);
        ck_assert_int_eq(cuEventElapsedTime(&milliseconds, timed[0], timed[1]), CUDA_SUCCESS);
        ck_assert_float_gt(milliseconds, 0.05f); /* the kernel in between naps for 0.1 ms */
        ck_assert_float_lt(milliseconds, 20000);
    }
    ck_assert_int_eq(cuEventDestroy(wanted), CUDA_SUCCESS);
    ck_assert_int_eq(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE); /* one of its events is gone */
    ck_assert_int_eq(cuGraphExecDestroy(exec), CUDA_SUCCESS);
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
    ck_assert_int_eq(cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, &before, NULL, &count), cudaSuccess);
    ck_assert_int_eq(cudaGraphAddChildGraphNode(&node, graph, before, count, child), cudaSuccess);
    ck_assert_int_eq(cudaStreamUpdateCaptureDependencies(stream, &node, NULL, 1, cudaStreamSetCaptureDependencies),
                     cudaSuccess);
}

TEST(graphs_nest_and_the_runtime_passes_them_on)
{
    atomic_int calls = 0;
    cudaStream_t stream;
    cudaGraph_t inner, outer;
    cudaGraphExec_t outer_exec;
    cudaGraphExecUpdateResultInfo info;
    size_t count = 0;
    ck_assert_int_eq(cudaStreamCreate(&stream), cudaSuccess);
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ck_assert_int_eq(cudaLaunchHostFunc(stream, count_call, &calls), cudaSuccess);
    ck_assert_int_eq(cudaStreamEndCapture(stream, &inner), cudaSuccess);
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    add_child(stream, inner);
    add_child(stream, inner);
    ck_assert_int_eq(cudaLaunchHostFunc(stream, count_call, &calls), cudaSuccess);
    ck_assert_int_eq(cudaStreamEndCapture(stream, &outer), cudaSuccess);
    ck_assert_int_eq(cudaGraphGetNodes(outer, NULL, &count), cudaSuccess);
    ck_assert_uint_eq(count, 3);
    ck_assert_int_eq(cudaGraphInstantiate(&outer_exec, outer, 0), cudaSuccess);
    ck_assert_int_eq(cudaGraphExecUpdate(outer_exec, outer, &info), cudaSuccess);
    ck_assert_int_eq(cudaGraphExecUpdate(outer_exec, inner, &info), cudaErrorGraphExecUpdateFailure);
    ck_assert_int_eq(cudaGraphDestroy(inner), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(outer), cudaSuccess);
    for (int i = 0; i < 3; ++i)
        ck_assert_int_eq(cudaGraphLaunch(outer_exec, stream), cudaSuccess);
    ck_assert_int_eq(cudaStreamSynchronize(stream), cudaSuccess);
    ck_assert_int_eq(atomic_load(&calls), 9);
    ck_assert_int_eq(cudaGraphExecDestroy(outer_exec), cudaSuccess);
    ck_assert_int_eq(cudaStreamDestroy(stream), cudaSuccess);
}
