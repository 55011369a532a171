/*
 * test_split.c - communicators made from others: a split gives each colour a communicator ordered by key, a shrink one
 * of the ranks that remain, also after one of them has died; and the calls that exchange blocks between all ranks.
 */
#include "device.h"

#include "tests/lib/test.h"

enum { COUNT = 5001 };

/* The communicator has these ranks and can sum: `rank` is this one's number, `sum` that of all contributions. */
static void
expect_comm(ncclComm_t comm, int rank, int rank_count, float mine, float sum)
{
    int answer;
    float *buffer = device_floats(COUNT, mine);
    EXPECT_NCCL(ncclCommUserRank(comm, &answer), ncclSuccess);
    EXPECT(answer == rank);
    EXPECT_NCCL(ncclCommCount(comm, &answer), ncclSuccess);
    EXPECT(answer == rank_count);
    ncclResult_t result = device_sum(buffer, COUNT, comm, NULL);
    EXPECT(result == ncclSuccess || result == ncclInProgress); /* the latter if it does not block */
    EXPECT_NCCL(device_await_ready(comm), ncclSuccess);
    expect_all(buffer, COUNT, sum);
}

TEST_GROUP(split, .timeout_s = TEST_NO_TIMEOUT);

/* Odd and even ranks, in reverse order; the last rank stays out the second time. */
COMM_LOOP_TEST(a_split_orders_each_color_by_key, 2, 6, 0)
{
    ncclComm_t part;
    float *pending = device_floats(COUNT, 1);
    EXPECT_NCCL(device_sum(pending, COUNT, comm, NULL), ncclSuccess);
    EXPECT_NCCL(ncclCommSplit(comm, rank % 2, -rank, &part, NULL), ncclSuccess);
    int count = 0, before = 0;
    float sum = 0;
    for (int r = rank % 2; r < n; r += 2) {
        ++count;
        before += r > rank;
        sum += (float)(r + 1);
    }
    expect_comm(part, before, count, (float)(rank + 1), sum);

    ncclComm_t without;
    EXPECT_NCCL(ncclCommSplit(comm, rank == n - 1 ? NCCL_SPLIT_NOCOLOR : 7, 0, &without, NULL), ncclSuccess);
    if (rank == n - 1)
        EXPECT(without == NULL);
    else
        expect_comm(without, rank, n - 1, 1, (float)(n - 1));
    expect_comm(comm, rank, n, 1, (float)n); /* the parent is as it was */
    ncclComm_t refused;
    EXPECT_NCCL(ncclCommSplit(comm, -5, 0, &refused, NULL), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommDestroy(without), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(part), ncclSuccess);
}

/* Not blocking: the new communicator is ready later, in its own time. */
COMM_TEST(a_split_need_not_block, 3, 0)
{
    ncclComm_t part;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    EXPECT_NCCL(ncclCommSplit(comm, 3, rank, &part, &config), ncclInProgress);
    EXPECT_NCCL(device_await_ready(part), ncclSuccess);
    expect_comm(part, rank, n, 2, 2 * (float)n);
    EXPECT_NCCL(ncclCommDestroy(part), ncclSuccess);
}

/* Rank 1 is left out twice in a row, and rank 0 then. */
COMM_LOOP_TEST(a_shrink_leaves_ranks_out, 3, 5, 0)
{
    ncclComm_t fewer;
    int out[] = {1}, itself[] = {rank};
    EXPECT_NCCL(ncclCommShrink(comm, itself, 1, &fewer, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    for (int i = 0; i < 3; ++i) {
        out[0] = i < 2 ? 1 : 0;
        if (rank == out[0])
            continue;
        EXPECT_NCCL(ncclCommShrink(comm, out, 1, &fewer, NULL, NCCL_SHRINK_DEFAULT), ncclSuccess);
        expect_comm(fewer, rank - (rank > out[0]), n - 1, 1, (float)(n - 1));
        EXPECT_NCCL(ncclCommDestroy(fewer), ncclSuccess);
    }
    expect_comm(comm, rank, n, 1, (float)n);
}

/* The last rank dies while the others wait for it; they continue without it. */
RANKS_TEST(survivors_of_a_death_continue, 3, 1u << 2)
{
    ncclComm_t comm = device_comm(rank, n, shared, 0), fewer;
    int dead[] = {n - 1};
    expect_comm(comm, rank, n, 1, (float)n);
    if (rank == n - 1)
        _Exit(9);
    float *buffer = device_floats(COUNT, 1);
    EXPECT_NCCL(device_sum(buffer, COUNT, comm, NULL), ncclSuccess);
    EXPECT_NCCL(device_await_error(comm), ncclRemoteError);
    EXPECT_NCCL(ncclCommShrink(comm, dead, 1, &fewer, NULL, NCCL_SHRINK_DEFAULT), ncclRemoteError);
    EXPECT_NCCL(ncclCommShrink(comm, dead, 1, &fewer, NULL, NCCL_SHRINK_ABORT), ncclSuccess);
    expect_comm(fewer, rank, n - 1, 1, (float)(n - 1));
    EXPECT_NCCL(ncclCommAbort(comm), ncclSuccess);
    expect_comm(fewer, rank, n - 1, 2, 2 * (float)(n - 1));
    EXPECT_NCCL(ncclCommDestroy(fewer), ncclSuccess);
}

/* Block r of rank s is 100 s + r. */
static float *
blocks(int rank, int n)
{
    float *device = device_floats((size_t)n * COUNT, 0), *host = malloc((size_t)n * COUNT * sizeof(float));
    for (int i = 0; i < n * COUNT; ++i)
        host[i] = (float)(100 * rank + i / COUNT);
    EXPECT_CUDA(cuMemcpyHtoD((CUdeviceptr)device, host, (size_t)n * COUNT * sizeof(float)));
    free(host);
    return device;
}

COMM_LOOP_TEST(blocks_go_where_they_belong, 2, 5, 0)
{
    float *mine = blocks(rank, n), *got = device_floats((size_t)n * COUNT, -1);
    EXPECT_NCCL(ncclAlltoAll(mine, got, COUNT, ncclFloat, comm, NULL), ncclSuccess);
    for (int r = 0; r < n; ++r)
        expect_all(got + (size_t)r * COUNT, COUNT, (float)(100 * r + rank));
    EXPECT_NCCL(ncclGather(mine, rank == 1 ? got : NULL, COUNT, ncclFloat, 1, comm, NULL), ncclSuccess);
    for (int r = 0; r < n && rank == 1; ++r)
        expect_all(got + (size_t)r * COUNT, COUNT, (float)(100 * r));
    EXPECT_NCCL(ncclScatter(rank == 1 ? mine : NULL, got, COUNT, ncclFloat, 1, comm, NULL), ncclSuccess);
    expect_all(got, COUNT, (float)(100 + rank));
    EXPECT_NCCL(ncclAlltoAll(mine, mine, COUNT, ncclFloat, comm, NULL), ncclInvalidArgument);
    EXPECT_NCCL(ncclGather(mine, got, COUNT, ncclFloat, n, comm, NULL), ncclInvalidArgument);

    ncclWindow_t window;
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    EXPECT_NCCL(ncclCommWindowRegister(comm, mine, COUNT, &window, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
    EXPECT_NCCL(ncclGroupStart(), ncclSuccess);
    EXPECT_NCCL(ncclAllReduce(mine, got, COUNT, ncclFloat, ncclSum, comm, NULL), ncclSuccess);
    EXPECT_NCCL(ncclGroupSimulateEnd(&info), ncclSuccess);
    EXPECT(info.estimatedTime >= 0);
    expect_all(got, COUNT, (float)(100 + rank)); /* simulated: nothing has moved */
    EXPECT_NCCL(ncclCommWindowDeregister(comm, window), ncclSuccess);
}
