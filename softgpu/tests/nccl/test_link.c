/*
 * test_link.c - a link between hosts that goes silent: no socket is closed, no packet comes any more, and still
 * every rank, whether it sends or waits, hears ncclRemoteError, and a communicator can be aborted. Then no stream
 * hangs, and those of one host continue without the others.
 *
 * TEST_LINK_DOWN is the command that silences the link of host 1 (run as a shell's); netns.sh sets it up. Skipped
 * without it.
 */
#include "device.h"

#include "tests/lib/test.h"

enum { COUNT = 1 << 20 };

/* `shared->flags[1]` is the number of the ranks that have seen the link work. */
static int
all_reduce_until_silence(int rank, int n, struct ranks_shared *shared)
{
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    CUstream stream = device_stream();
    float *values = device_floats(COUNT, 1.0f);
    bool is_idle = shared->flags[0] != 0;
    EXPECT_NCCL(ncclAllReduce(values, values, COUNT, ncclFloat, ncclMax, comm, stream), ncclSuccess);
    EXPECT_CUDA(cuStreamSynchronize(stream));
    if (is_idle && rank == 0) {
        ranks_await(&shared->flags[1], n - 1);
        EXPECT(system(getenv("TEST_LINK_DOWN")) == 0);
        atomic_store(&shared->flags[2], 1);
    }
    atomic_fetch_add(&shared->flags[1], 1);
    if (is_idle)
        ranks_await(&shared->flags[2], 1);
    ncclResult_t error = ncclSuccess;
    for (int i = 0; error == ncclSuccess; ++i) {
        ncclAllReduce(values, values, COUNT, ncclFloat, ncclMax, comm, stream);
        if (!is_idle && i == 20 && rank == 0) /* with operations under way everywhere */
            EXPECT(system(getenv("TEST_LINK_DOWN")) == 0);
        CUresult under_way = CUDA_ERROR_NOT_READY;
        while (i >= 20 && error == ncclSuccess && under_way == CUDA_ERROR_NOT_READY) {
            under_way = cuStreamQuery(stream);
            EXPECT_NCCL(ncclCommGetAsyncError(comm, &error), ncclSuccess);
            usleep(100);
        }
    }
    EXPECT(error == ncclRemoteError);
    EXPECT(strstr(ncclGetLastError(comm), "does not answer any more"));

    /* Ranks 0 and 2 are on one host. */
    if (rank != 1) {
        int gone[] = {1};
        ncclComm_t rest;
        EXPECT_NCCL(ncclCommShrink(comm, gone, 1, &rest, NULL, NCCL_SHRINK_ABORT), ncclSuccess);
        float *ones = device_floats(COUNT, 1.0f);
        EXPECT_NCCL(device_sum(ones, COUNT, rest, stream), ncclSuccess);
        expect_all(ones, COUNT, 2.0f);
        EXPECT_NCCL(ncclCommDestroy(rest), ncclSuccess);
    }
    EXPECT_NCCL(ncclCommAbort(comm), ncclSuccess);
    return 0;
}

static void
run(bool is_idle)
{
    struct ranks_shared *shared = ranks_shared_new();
    shared->flags[0] = is_idle;
    bool good = ranks_run_shared(3, all_reduce_until_silence, 0, shared);
    ranks_shared_free(shared);
    ck_assert(good);
    const char *up = getenv("TEST_LINK_UP");
    ck_assert_int_eq(up ? system(up) : -1, 0);
}

TEST_GROUP(link, .timeout_s = 100);

TEST(silence_while_data_move)
{
    run(false);
}

TEST(silence_while_nothing_moves)
{
    run(true);
}

int
main(void)
{
    if (!getenv("TEST_LINK_DOWN")) {
        printf("skipped: no link that can be cut (tests/nccl/netns.sh makes one)\n");
        return 77;
    }
    return tests_run();
}
