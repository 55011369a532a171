/*
 * test_capture.c - NCCL's operations in CUDA graphs: what is enqueued on a captured stream runs at each launch of the
 * graph and not before, in the order of the calls among themselves and with what is enqueued besides; and what is left
 * of it when the communicator is gone does nothing, and reports that.
 */
#include "device.h"

#include "tests/lib/test.h"

enum { COUNT = 70001 };

static void
begin(CUstream stream)
{
    EXPECT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
}

static CUgraphExec
end(CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;
    EXPECT_CUDA(cuStreamEndCapture(stream, &graph));
    EXPECT_CUDA(cuGraphInstantiate(&exec, graph, 0));
    EXPECT_CUDA(cuGraphDestroy(graph));
    return exec;
}

TEST_GROUP(capture, .timeout_s = 100);

/* Every collective and a pair of messages, with eager operations before, between and after the launches. */
COMM_LOOP_TEST(captured_operations_run_at_each_launch, 1, 4, 0)
{
    float *in = device_floats(COUNT, (float)(rank + 1)), *sum = device_floats(COUNT, -1);
    float *gathered = device_floats((size_t)n * COUNT, -1), *scattered = device_floats(COUNT, -1);
    float *root = device_floats(COUNT, -1), *ring = device_floats(COUNT, -1);
    float total = (float)(n * (n + 1)) / 2;
    EXPECT_NCCL(ncclAllReduce(in, scattered, COUNT, ncclFloat, ncclSum, comm, stream), ncclSuccess);
    begin(stream);
    EXPECT_NCCL(ncclAllReduce(in, sum, COUNT, ncclFloat, ncclSum, comm, stream), ncclSuccess);
    EXPECT_NCCL(ncclAllGather(sum, gathered, COUNT, ncclFloat, comm, stream), ncclSuccess);
    EXPECT_NCCL(ncclReduceScatter(gathered, scattered, COUNT, ncclFloat, ncclSum, comm, stream), ncclSuccess);
    EXPECT_NCCL(ncclReduce(scattered, root, COUNT, ncclFloat, ncclMax, 0, comm, stream), ncclSuccess);
    EXPECT_NCCL(ncclBcast(root, COUNT, ncclFloat, 0, comm, stream), ncclSuccess);
    EXPECT_NCCL(ncclGroupStart(), ncclSuccess);
    EXPECT_NCCL(ncclSend(in, COUNT, ncclFloat, (rank + 1) % n, comm, stream), ncclSuccess);
    EXPECT_NCCL(ncclRecv(ring, COUNT, ncclFloat, (rank + n - 1) % n, comm, stream), ncclSuccess);
    EXPECT_NCCL(ncclAllReduce(in, in, COUNT, ncclFloat, ncclMax, comm, stream), ncclSuccess);
    EXPECT_NCCL(ncclGroupEnd(), ncclSuccess);
    CUgraphExec exec = end(stream);
    expect_all(sum, COUNT, -1); /* nothing has run yet */
    expect_all(scattered, COUNT, total);
    for (int i = 0; i < 3; ++i) {
        float mine = (float)(rank + 1);
        unsigned bits;
        __builtin_memcpy(&bits, &mine, sizeof(bits));
        EXPECT_CUDA(cuMemsetD32Async((CUdeviceptr)in, bits, COUNT, stream));
        EXPECT_CUDA(cuGraphLaunch(exec, stream));
        expect_all(sum, COUNT, total);
        expect_all(gathered, (size_t)n * COUNT, total);
        expect_all(scattered, COUNT, (float)n * total);
        expect_all(root, COUNT, (float)n * total);
        expect_all(in, COUNT, (float)n);
        expect_all(ring, COUNT, (float)n); /* the group's collectives come first */
        EXPECT_NCCL(device_sum(sum, COUNT, comm, stream), ncclSuccess);
        expect_all(sum, COUNT, (float)n * total);
    }
    EXPECT_CUDA(cuGraphExecDestroy(exec));
}

/*
 * Graphs on one stream, eager operations on another, and nothing of the program's own between them: the communicator's
 * order alone makes each read what the one before wrote. The eager first half of a step doubles (with two ranks), the
 * graph adds by all-reduce into the other buffer on two captured streams.
 */
COMM_LOOP_TEST(graphs_and_eager_operations_keep_their_order, 2, 4, 0)
{
    enum { STEPS = 8 };
    CUstream captured = device_stream(), beside = device_stream(), eager = device_stream();
    float *a = device_floats(COUNT, 1), *b = device_floats(COUNT, 0), *c = device_floats(COUNT, 0);
    CUevent fork;
    EXPECT_CUDA(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    begin(captured); /* the first operation ever of this communicator is a captured one */
    EXPECT_CUDA(cuEventRecord(fork, captured));
    EXPECT_CUDA(cuStreamWaitEvent(beside, fork, 0));
    EXPECT_NCCL(ncclAllReduce(a, b, COUNT, ncclFloat, ncclSum, comm, captured), ncclSuccess);
    EXPECT_NCCL(ncclAllReduce(b, c, COUNT, ncclFloat, ncclSum, comm, beside), ncclSuccess); /* after that one */
    EXPECT_NCCL(ncclAllReduce(c, a, COUNT, ncclFloat, ncclAvg, comm, captured), ncclSuccess);
    CUgraphExec exec = end(captured);
    float expected = 1;
    for (int i = 0; i < STEPS; ++i) {
        EXPECT_CUDA(cuGraphLaunch(exec, captured));
        EXPECT_NCCL(ncclAllReduce(a, a, COUNT, ncclFloat, ncclAvg, comm, eager), ncclSuccess);
        expected *= (float)(n * n);
    }
    expect_all(a, COUNT, expected);
    EXPECT_CUDA(cuGraphExecDestroy(exec));
    EXPECT_CUDA(cuEventDestroy(fork));
}

/* Ranks that launch graphs which do not match find out as they do without graphs. */
RANKS_TEST(graphs_that_do_not_match_are_found, 2, 0)
{
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    CUstream stream = device_stream();
    float *a = device_floats(COUNT, 1);
    begin(stream);
    EXPECT_NCCL(device_sum(a, rank == 0 ? COUNT : COUNT - 1, comm, stream), ncclSuccess);
    CUgraphExec exec = end(stream);
    EXPECT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT(device_await_error(comm) == ncclInvalidUsage);
    EXPECT_NCCL(ncclCommAbort(comm), ncclSuccess);
    EXPECT_CUDA(cuStreamSynchronize(stream));
}

/* A graph that outlives its communicator moves nothing, and one line says why. */
RANKS_TEST(a_graph_that_outlives_its_communicator_is_reported, 2, 0)
{
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    CUstream stream = device_stream();
    float *a = device_floats(COUNT, 1), *b = device_floats(COUNT, 5);
    begin(stream);
    EXPECT_NCCL(ncclAllReduce(a, b, COUNT, ncclFloat, ncclSum, comm, stream), ncclSuccess);
    CUgraphExec exec = end(stream);
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
    int ends[2], before = dup(2);
    char said[512] = "";
    EXPECT(pipe(ends) == 0 && dup2(ends[1], 2) == 2);
    EXPECT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT(dup2(before, 2) == 2);
    EXPECT(read(ends[0], said, sizeof(said) - 1) > 0);
    EXPECT(__builtin_strstr(said, "operations of a communicator that is destroyed"));
    expect_all(b, COUNT, 5);
}
