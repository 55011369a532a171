/*
 * test_api.c - NCCL's interface on streams: what a trainer calls gives what NCCL documents.
 */
#include "device.h"

#include "tests/lib/test.h"

enum { COUNT = 200003 };

TEST_GROUP(api, .timeout_s = 100);

RANKS_LOOP_TEST(collectives_on_a_stream, 1, 5, 0)
{
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    int answer;
    EXPECT_NCCL(ncclCommCount(comm, &answer), ncclSuccess);
    EXPECT(answer == n);
    EXPECT_NCCL(ncclCommUserRank(comm, &answer), ncclSuccess);
    EXPECT(answer == rank);
    EXPECT_NCCL(ncclCommCuDevice(comm, &answer), ncclSuccess);
    EXPECT(answer == 0);

    CUstream stream = device_stream();
    float sum = (float)(n * (n + 1)) / 2;
    float *mine = device_floats(COUNT, (float)(rank + 1)), *result = device_floats((size_t)n * COUNT, -1.0f);
    EXPECT_NCCL(ncclAllReduce(mine, result, COUNT, ncclFloat, ncclSum, comm, stream), ncclSuccess);
    expect_all(result, COUNT, sum);
    EXPECT_NCCL(ncclAllReduce(mine, result, COUNT, ncclFloat, ncclMax, comm, stream), ncclSuccess);
    expect_all(result, COUNT, (float)n);
    EXPECT_NCCL(ncclAllReduce(mine, result, COUNT, ncclFloat, ncclAvg, comm, stream), ncclSuccess);
    expect_all(result, COUNT, sum * (1.0f / (float)n));
    EXPECT_NCCL(ncclReduce(mine, rank == n - 1 ? result : NULL, COUNT, ncclFloat, ncclSum, n - 1, comm, stream),
                ncclSuccess);
    if (rank == n - 1)
        expect_all(result, COUNT, sum);
    EXPECT_NCCL(ncclBroadcast(rank == 0 ? mine : NULL, result, COUNT, ncclFloat, 0, comm, stream), ncclSuccess);
    expect_all(result, COUNT, 1.0f);
    EXPECT_NCCL(ncclAllGather(mine, result, COUNT, ncclFloat, comm, stream), ncclSuccess);
    for (int r = 0; r < n; ++r)
        expect_all(result + (size_t)r * COUNT, COUNT, (float)(r + 1));
    EXPECT_NCCL(ncclReduceScatter(result, mine, COUNT, ncclFloat, ncclSum, comm, stream), ncclSuccess);
    expect_all(mine, COUNT, (float)(n * (rank + 1)));
    EXPECT_NCCL(ncclBcast(mine, COUNT, ncclFloat, n - 1, comm, stream), ncclSuccess);
    expect_all(mine, COUNT, (float)(n * n));

    EXPECT_NCCL(ncclCommFinalize(comm), ncclSuccess);
    EXPECT_NCCL(device_sum(mine, 1, comm, stream), ncclInvalidUsage);
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
    EXPECT_CUDA(cuStreamDestroy(stream));
}

/* Operations of a communicator on different streams run in the order of the calls: each reads what the one before
 * wrote. */
COMM_TEST(operations_on_different_streams_keep_their_order, 2, 0)
{
    enum { STEPS = 12 };
    CUstream streams[] = {device_stream(), device_stream(), NULL, CU_STREAM_PER_THREAD};
    float *values[STEPS + 1];
    for (int i = 0; i <= STEPS; ++i)
        values[i] = device_floats(COUNT, i == 0 ? 1.0f : -1000.0f);
    float expected = 1.0f;
    for (int i = 0; i < STEPS; ++i) {
        EXPECT_NCCL(ncclAllReduce(values[i], values[i + 1], COUNT, ncclFloat, ncclSum, comm, streams[i % 4]),
                    ncclSuccess);
        expected *= (float)n;
    }
    expect_all(values[STEPS], COUNT, expected);
}

/* Two communicators, of which the second knows the ranks by other numbers, on two streams at the same time. */
RANKS_TEST(communicators_do_not_disturb_each_other, 3, 0)
{
    int mirrored = n - 1 - rank;
    ncclComm_t first = device_comm(rank, n, shared, 0), second;
    EXPECT_NCCL(ncclCommInitRank(&second, n, device_share_id(rank, shared, 1), mirrored), ncclSuccess);
    CUstream streams[] = {device_stream(), device_stream()};
    float *a = device_floats(COUNT, (float)rank), *b = device_floats(COUNT, (float)rank);
    for (int i = 0; i < 5; ++i) {
        EXPECT_NCCL(ncclBcast(a, COUNT, ncclFloat, 0, first, streams[0]), ncclSuccess);
        EXPECT_NCCL(ncclBcast(b, COUNT, ncclFloat, 0, second, streams[1]), ncclSuccess);
    }
    expect_all(a, COUNT, 0.0f);
    expect_all(b, COUNT, (float)(n - 1));
    EXPECT_NCCL(ncclCommDestroy(second), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(first), ncclSuccess);
}

COMM_LOOP_TEST(groups_are_enqueued_at_their_end, 1, 4, 0)
{
    float *a = device_floats(COUNT, 1.0f), *b = device_floats(COUNT, 2.0f), *from = device_floats(COUNT, -1.0f);
    int next = (rank + 1) % n, previous = (rank + n - 1) % n;
    float *ring = device_floats(COUNT, (float)rank);
    EXPECT_NCCL(ncclGroupStart(), ncclSuccess);
    EXPECT_NCCL(ncclGroupStart(), ncclSuccess);
    /* The place of point-to-point calls between the collectives may differ from rank to rank. */
    if (rank == 0)
        EXPECT_NCCL(ncclSend(ring, COUNT, ncclFloat, next, comm, stream), ncclSuccess);
    EXPECT_NCCL(device_sum(a, COUNT, comm, stream), ncclSuccess);
    EXPECT_NCCL(device_sum(b, COUNT, comm, stream), ncclSuccess);
    EXPECT_NCCL(ncclRecv(from, COUNT, ncclFloat, previous, comm, stream), ncclSuccess);
    if (rank != 0)
        EXPECT_NCCL(ncclSend(ring, COUNT, ncclFloat, next, comm, stream), ncclSuccess);
    EXPECT_NCCL(ncclGroupEnd(), ncclSuccess);
    expect_all(a, 10, 1.0f); /* nothing has begun yet */
    EXPECT_NCCL(ncclGroupEnd(), ncclSuccess);
    expect_all(a, COUNT, (float)n);
    expect_all(b, COUNT, (float)(2 * n));
    expect_all(from, COUNT, (float)previous);

    /* A refused call spoils its group, and only that. */
    EXPECT_NCCL(ncclGroupStart(), ncclSuccess);
    EXPECT_NCCL(device_sum(a, COUNT, comm, stream), ncclSuccess);
    EXPECT_NCCL(ncclAllReduce(a, a, COUNT, ncclFloat8e4m3, ncclSum, comm, stream), ncclInvalidArgument);
    EXPECT_NCCL(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_NCCL(ncclGroupEnd(), ncclInvalidUsage);
    expect_all(a, COUNT, (float)n);
    EXPECT_NCCL(device_sum(a, COUNT, comm, stream), ncclSuccess);
    expect_all(a, COUNT, (float)(n * n));
}

COMM_TEST(operators_and_registered_memory, 2, 0)
{
    float *values, factor = 1.0f / (float)n, *device_factor = device_floats(1, (float)(rank + 1)),
                   *source = device_floats(COUNT, 6.0f);
    EXPECT_NCCL(ncclMemAlloc((void **)&values, COUNT * sizeof(float)), ncclSuccess);
    void *handle;
    EXPECT_NCCL(ncclCommRegister(comm, values, COUNT * sizeof(float), &handle), ncclSuccess);
    ncclRedOp_t mean, weighted;
    EXPECT_NCCL(ncclRedOpCreatePreMulSum(&mean, &factor, ncclFloat, ncclScalarHostImmediate, comm), ncclSuccess);
    EXPECT_NCCL(ncclRedOpCreatePreMulSum(&weighted, device_factor, ncclFloat, ncclScalarDevice, comm), ncclSuccess);
    factor = 100.0f; /* was read when the operator was made */
    EXPECT_NCCL(ncclAllReduce(source, values, COUNT, ncclFloat, mean, comm, NULL), ncclSuccess);
    expect_all(values, COUNT, 6.0f);
    EXPECT_NCCL(ncclAllReduce(source, values, COUNT, ncclFloat, weighted, comm, NULL), ncclSuccess);
    expect_all(values, COUNT, 6.0f * (float)(n * (n + 1)) / 2);
    EXPECT_NCCL(ncclAllReduce(source, values, COUNT, ncclDouble, mean, comm, NULL), ncclInvalidArgument);
    EXPECT_NCCL(ncclRedOpDestroy(mean, comm), ncclSuccess);
    EXPECT_NCCL(ncclRedOpDestroy(mean, comm), ncclInvalidArgument);
    EXPECT_NCCL(ncclAllReduce(source, values, COUNT, ncclFloat, mean, comm, NULL), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommDeregister(comm, handle), ncclSuccess);
    EXPECT_NCCL(ncclMemFree(values), ncclSuccess);
}

/* Rank 1 joins only after rank 0 has seen that its communicator is on its way. */
RANKS_TEST(initialisation_in_the_background, 2, 0)
{
    ncclUniqueId id = device_share_id(rank, shared, 0);
    ncclResult_t state;
    float *values = device_floats(COUNT, 1.0f);
    if (rank == 1)
        ranks_await(&shared->flags[0], 1);
    ncclComm_t comm = device_begin_comm(rank, n, shared, 0);
    if (rank == 0) {
        EXPECT_NCCL(ncclCommGetAsyncError(comm, &state), ncclSuccess);
        EXPECT(state == ncclInProgress);
        EXPECT_NCCL(device_sum(values, COUNT, comm, NULL), ncclInvalidArgument);
        atomic_store(&shared->flags[0], 1);
    }
    EXPECT(device_await_ready(comm) == ncclSuccess);
    EXPECT_NCCL(device_sum(values, COUNT, comm, NULL), ncclInProgress);
    EXPECT(device_await_ready(comm) == ncclSuccess);
    EXPECT_NCCL(ncclCommFinalize(comm), ncclInProgress);
    EXPECT(device_await_ready(comm) == ncclSuccess);
    EXPECT_CUDA(cuStreamQuery(NULL)); /* finalized: everything has run */
    expect_all(values, COUNT, (float)n);
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);

    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.magic = 0;
    EXPECT_NCCL(ncclCommInitRankConfig(&comm, n, id, rank, &config), ncclInvalidArgument);
}

/* One process, two devices: ncclCommInitAll, and a group over both. */
RANKS_TEST(one_process_with_two_devices, 1, 0)
{
    (void)rank, (void)n, (void)shared;
    EXPECT(setenv("SOFTGPU_DEVICES", "2", 1) == 0);
    device_start();
    int device_count;
    EXPECT_CUDA(cuDeviceGetCount(&device_count));
    EXPECT(device_count == 2);
    ncclComm_t comms[2];
    EXPECT_NCCL(ncclCommInitAll(comms, 2, NULL), ncclSuccess);
    float *values[2];
    CUstream streams[2];
    for (int d = 0; d < 2; ++d) {
        CUcontext context;
        EXPECT_CUDA(cuDevicePrimaryCtxRetain(&context, d));
        EXPECT_CUDA(cuCtxSetCurrent(context));
        values[d] = device_floats(COUNT, (float)(d + 1));
        streams[d] = device_stream();
    }
    EXPECT_NCCL(ncclGroupStart(), ncclSuccess);
    for (int d = 0; d < 2; ++d)
        EXPECT_NCCL(ncclAllReduce(values[d], values[d], COUNT, ncclFloat, ncclSum, comms[d], streams[d]), ncclSuccess);
    EXPECT_NCCL(ncclGroupEnd(), ncclSuccess);
    for (int d = 0; d < 2; ++d) {
        EXPECT_CUDA(cuStreamSynchronize(streams[d]));
        expect_all(values[d], COUNT, 3.0f);
        int device;
        EXPECT_NCCL(ncclCommCuDevice(comms[d], &device), ncclSuccess);
        EXPECT(device == d);
    }
    /* Ids and ranks inside a group: the joining threads meet at its end. */
    ncclUniqueId id;
    ncclComm_t grouped[2];
    EXPECT_NCCL(ncclGetUniqueId(&id), ncclSuccess);
    EXPECT_NCCL(ncclGroupStart(), ncclSuccess);
    for (int d = 0; d < 2; ++d)
        EXPECT_NCCL(ncclCommInitRank(&grouped[d], 2, id, d), ncclSuccess);
    EXPECT_NCCL(ncclGroupEnd(), ncclSuccess);
    for (int d = 0; d < 2; ++d) {
        EXPECT_NCCL(ncclCommDestroy(grouped[d]), ncclSuccess);
        EXPECT_NCCL(ncclCommDestroy(comms[d]), ncclSuccess);
    }
}

static int64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Runs `group` grouped all-reduces and returns how long they took. */
static int64_t
time_group(ncclComm_t comm, float *values, size_t count, int group)
{
    EXPECT_CUDA(cuCtxSynchronize());
    int64_t start = now_ns();
    EXPECT_NCCL(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < group; ++i)
        EXPECT_NCCL(ncclAllReduce(values, values, count, ncclFloat, ncclMax, comm, NULL), ncclSuccess);
    EXPECT_NCCL(ncclGroupEnd(), ncclSuccess);
    EXPECT_CUDA(cuCtxSynchronize());
    return now_ns() - start;
}

/* 40 ms latency, 25 ms for a million bytes: at least that long, with the right result. */
RANKS_TEST(link_model_takes_its_time, 2, 0)
{
    EXPECT(setenv("SOFTGPU_LINK", "latency_us=40000,gbytes_per_s=0.04", 1) == 0);
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    float *values = device_floats(250000, (float)rank);
    int64_t one = time_group(comm, values, 250000, 1);
    EXPECT(one >= 40000000 + 25000000);
    expect_all(values, 250000, (float)(n - 1));
    EXPECT(time_group(comm, values, 250000, 3) >= 40000000 + 3 * 25000000);
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
}

static void
sleep_100_ms(void *argument)
{
    atomic_int *has_begun = argument;
    atomic_store(has_begun, 1);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

/* 100 ms of work and an all-reduce beside it: the longest of three, for a busy machine may let either begin late. */
static int64_t
longest_beside_work(ncclComm_t comm, float *values)
{
    CUstream stream = device_stream(), other = device_stream();
    int64_t longest = 0;
    for (int i = 0; i < 3; ++i) {
        atomic_int has_begun = 0;
        int64_t start = now_ns();
        EXPECT_CUDA(cuLaunchHostFunc(stream, sleep_100_ms, &has_begun));
        ranks_await(&has_begun, 1); /* else the all-reduce might be done before */
        EXPECT_NCCL(ncclAllReduce(values, values, 10, ncclFloat, ncclMax, comm, other), ncclSuccess);
        EXPECT_CUDA(cuStreamSynchronize(other));
        EXPECT(now_ns() - start >= 60000000);
        EXPECT_CUDA(cuStreamSynchronize(stream));
        longest = now_ns() - start > longest ? now_ns() - start : longest;
    }
    return longest;
}

/* 60 ms by itself. Of 100 ms beside other work only a quarter counts: 135 ms. */
RANKS_TEST(link_model_is_slower_beside_other_work, 2, 0)
{
    EXPECT(setenv("SOFTGPU_LINK", "latency_us=60000,busy_factor=4", 1) == 0);
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    float *values = device_floats(10, (float)rank);
    EXPECT(time_group(comm, values, 10, 1) >= 60000000);
    EXPECT(longest_beside_work(comm, values) >= 125000000);
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
}

/* 100 ms of work by itself. While the link is in use, for 60 ms, it is a third as fast: 140 ms. */
RANKS_TEST(link_model_slows_other_work, 2, 0)
{
    EXPECT(setenv("SOFTGPU_LINK", "latency_us=60000,slows=3", 1) == 0);
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    float *values = device_floats(10, (float)rank);
    EXPECT(time_group(comm, values, 10, 1) >= 60000000); /* which is not slower itself */
    EXPECT(longest_beside_work(comm, values) >= 139000000);
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
}

RANKS_TEST(wrong_arguments_are_refused, 2, 0)
{
    ncclComm_t comm = device_comm(rank, n, shared, 0), none = NULL;
    ncclUniqueId id = shared->ids[0], foreign = {{0}};
    float *values = device_floats(10, 1.0f);
    int version;
    EXPECT_NCCL(ncclGetVersion(&version), ncclSuccess);
    EXPECT(version == 22809);
    EXPECT_NCCL(ncclGetVersion(NULL), ncclInvalidArgument);
    EXPECT_NCCL(device_sum(values, 10, none, NULL), ncclInvalidArgument);
    EXPECT(strstr(ncclGetLastError(NULL), "NULL"));
    EXPECT_NCCL(ncclAllReduce(NULL, values, 10, ncclFloat, ncclSum, comm, NULL), ncclInvalidArgument);
    EXPECT_NCCL(ncclAllReduce(values, values, 10, ncclFloat8e5m2, ncclSum, comm, NULL), ncclInvalidArgument);
    EXPECT(strstr(ncclGetLastError(comm), "float8e5m2"));
    EXPECT_NCCL(ncclAllReduce(values, values, 10, (ncclDataType_t)77, ncclSum, comm, NULL), ncclInvalidArgument);
    EXPECT_NCCL(ncclAllReduce(values, values, 10, ncclFloat, (ncclRedOp_t)40, comm, NULL), ncclInvalidArgument);
    EXPECT_NCCL(ncclBroadcast(values, values, 10, ncclFloat, n, comm, NULL), ncclInvalidArgument);
    EXPECT_NCCL(ncclReduce(values, values, 10, ncclFloat, ncclSum, -1, comm, NULL), ncclInvalidArgument);
    EXPECT_NCCL(ncclSend(values, 10, ncclFloat, n, comm, NULL), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommInitRank(&none, 0, id, 0), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommInitRank(&none, 2, id, 2), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommInitRank(&none, 2, id, -1), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommInitRank(&none, 2, foreign, 0), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommInitRank(NULL, 2, id, 0), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommInitRank(&none, 1, id, 0), ncclSystemError); /* the id has served its communicator */
    EXPECT_NCCL(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclInvalidUsage);
    EXPECT(strstr(ncclGetLastError(NULL), "ncclCommRevoke"));
    EXPECT(strcmp(ncclGetErrorString(ncclSuccess), ncclGetErrorString(ncclRemoteError)) != 0);
    EXPECT(setenv("SOFTGPU_LINK", "latency_us=fast", 1) == 0);
    EXPECT_NCCL(ncclCommInitRank(&none, 1, id, 0), ncclInvalidArgument);
    EXPECT(strstr(ncclGetLastError(NULL), "SOFTGPU_LINK"));
    CUcontext primary, other;
    CUstream stream;
    EXPECT_CUDA(cuCtxGetCurrent(&primary));
    EXPECT_CUDA(cuCtxCreate(&other, NULL, 0, 0));
    EXPECT_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    EXPECT_NCCL(device_sum(values, 10, comm, stream), ncclUnhandledCudaError);
    EXPECT(strstr(ncclGetLastError(NULL), "primary"));
    EXPECT_CUDA(cuStreamDestroy(stream));
    EXPECT_CUDA(cuCtxDestroy(other));
    EXPECT_CUDA(cuCtxSetCurrent(primary));
    /* None of this has harmed the communicator. */
    EXPECT_NCCL(device_sum(values, 10, comm, NULL), ncclSuccess);
    expect_all(values, 10, (float)n);
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(NULL), ncclSuccess);
}
