/*
 * test_failures.c - when ranks disagree, die or give up, through NCCL's interface: every rank learns it from
 * ncclCommGetAsyncError, nothing after a failed operation sees its buffer before the rank gives the communicator up,
 * then no stream hangs, and nothing is left behind.
 */
#include "device.h"

#include "tests/lib/test.h"

#include <dirent.h>

enum { COUNT = 1 << 21 };

TEST_GROUP(failures, .timeout_s = 100);

/* ---- initialisation ---- */
RANKS_TEST(a_rank_that_is_there_twice, 2, 0)
{
    ncclUniqueId id = device_share_id(rank, shared, 0);
    ncclComm_t comm = (ncclComm_t)shared;
    /* Of three, two say that they are rank 1; the third never comes. */
    EXPECT_NCCL(ncclCommInitRank(&comm, n + 1, id, 1), ncclInvalidUsage);
    EXPECT(comm == NULL);
    EXPECT(strstr(ncclGetLastError(NULL), "two processes say that they are rank 1 of 3"));
    ranks_meet(&shared->flags[0], n); /* the id's maker serves it until then */
}

RANKS_TEST(ranks_that_count_differently, 2, 0)
{
    ncclUniqueId id = device_share_id(rank, shared, 0);
    ncclComm_t comm;
    EXPECT_NCCL(ncclCommInitRank(&comm, n + rank, id, rank), ncclInvalidArgument);
    EXPECT(strstr(ncclGetLastError(NULL), "ranks disagree on their number"));
    EXPECT(strstr(ncclGetLastError(NULL), "rank 0 says 2") && strstr(ncclGetLastError(NULL), "rank 1 says 3"));
    ranks_meet(&shared->flags[0], n);
}

/* A rank that waits for others can give up. */
RANKS_TEST(abort_during_initialisation, 1, 0)
{
    EXPECT_NCCL(ncclCommAbort(device_begin_comm(rank, n + 1, shared, 0)), ncclSuccess);
}

/* The process that made the id dies before all have come. */
RANKS_TEST(death_of_the_maker_of_the_id, 2, 1)
{
    (void)device_share_id(rank, shared, 0);
    if (rank == 0) {
        ranks_await(&shared->flags[0], 1);
        kill(getpid(), SIGKILL);
    }
    ncclComm_t comm = device_begin_comm(rank, n, shared, 0);
    atomic_store(&shared->flags[0], 1);
    ncclResult_t result = device_await_ready(comm);
    EXPECT(result == ncclRemoteError || result == ncclSystemError); /* while connected, or before */
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
}

/* ---- operations ---- */

RANKS_TEST(operations_that_do_not_match, 2, 0)
{
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    CUstream stream = device_stream();
    float *values = device_floats(COUNT, 1.0f);
    EXPECT_NCCL(device_sum(values, COUNT - (size_t)rank, comm, stream), ncclSuccess);
    EXPECT(device_await_error(comm) == ncclInvalidUsage);
    EXPECT(strstr(ncclGetLastError(comm),
                  "rank 0 calls all-reduce of 2097152 float32 (sum), rank 1 calls all-reduce of 2097151"));
    EXPECT_NCCL(device_sum(values, COUNT, comm, stream), ncclInvalidUsage);
    EXPECT_NCCL(ncclCommAbort(comm), ncclSuccess);
    EXPECT_CUDA(cuStreamSynchronize(stream));
}

/* A few all-reduces are in flight everywhere when the last rank kills itself at a random moment. */
static int
killed_in_flight(int rank, int n, struct ranks_shared *shared)
{
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    CUstream stream = device_stream();
    float *values = device_floats(COUNT, 1.0f);
    unsigned seed = (unsigned)getpid();
    for (int i = 0; i < 20; ++i) { /* refused as soon as the death is known, which may be before the last of them */
        ncclResult_t result = ncclAllReduce(values, values, COUNT, ncclFloat, ncclMax, comm, stream);
        EXPECT(result == ncclSuccess || result == ncclRemoteError);
    }
    if (rank == n - 1) {
        usleep((useconds_t)(rand_r(&seed) % 20000));
        kill(getpid(), SIGKILL);
    }
    ncclAllReduce(values, values, COUNT, ncclFloat, ncclMax, comm, stream); /* the victim may have been done with all */
    ncclResult_t error = device_await_error(comm);
    char victim[48];
    snprintf(victim, sizeof(victim), "the process of rank %d ended", n - 1);
    EXPECT(error == ncclRemoteError);
    EXPECT(strstr(ncclGetLastError(comm), victim));
    EXPECT_NCCL(rank == 0 ? ncclCommDestroy(comm) : ncclCommAbort(comm), ncclSuccess);
    EXPECT_CUDA(cuStreamSynchronize(stream));
    return 0;
}

/* The last rank has forked a child, as a data loader is, that lives on when the rank dies: it is dead all the same. */
static int
killed_with_a_child(int rank, int n, struct ranks_shared *shared)
{
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    device_connect(comm);
    CUstream stream = device_stream();
    float *values = device_floats(COUNT, 1.0f);
    if (rank == n - 1) {
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            atomic_store(&shared->flags[0], getpid());
            for (;;)
                pause();
        }
        ranks_await(&shared->flags[0], 1);
        kill(getpid(), SIGKILL);
    }
    EXPECT_NCCL(device_sum(values, COUNT, comm, stream), ncclSuccess);
    EXPECT(device_await_error(comm) == ncclRemoteError);
    EXPECT(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY); /* who comes after it must not take it for a sum */
    EXPECT_NCCL(ncclCommAbort(comm), ncclSuccess);
    EXPECT_CUDA(cuStreamSynchronize(stream));
    return 0;
}

TEST(death_with_a_child_that_lives)
{
    struct ranks_shared *shared = ranks_shared_new();
    bool good = ranks_run_shared(2, killed_with_a_child, 1u << 1, shared);
    if (shared->flags[0] > 0)
        kill(shared->flags[0], SIGKILL);
    ranks_shared_free(shared);
    ck_assert(good);
}

/* How many names in the directory have one of the words. */
static int
count_entries(const char *path, const char *word, const char *other)
{
    int count = 0;
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        count += strstr(entry->d_name, word) || strstr(entry->d_name, other);
    if (directory)
        closedir(directory);
    return count;
}

LOOP_TEST(death_in_flight, 2, 5)
{
    ck_assert(ranks_run(_i, killed_in_flight, 1u << (_i - 1)));
    ck_assert_int_eq(count_entries("/dev/shm", "softgpu", "nccl"), 0); /* no leftovers */
}

/* Once initialised, a communicator has no socket; a rank that dies leaves none. */
COMM_TEST(no_socket_outlives_initialisation, 2, 0)
{
    char name[64] = "@softgpu-nccl-";
    for (int i = 0; i < 16; ++i)
        snprintf(name + strlen(name), sizeof(name) - strlen(name), "%02x",
                 (unsigned char)shared->ids[0].internal[8 + i]);
    /* The serving thread closes its socket right after its last answer: wait for that, up to the test's deadline. */
    bool found = true;
    for (int i = 0; i < RANKS_DEADLINE_S * 100 && found; ++i) {
        char line[512];
        FILE *list = fopen("/proc/net/unix", "r");
        EXPECT(list);
        found = false;
        while (fgets(line, sizeof(line), list))
            found = found || strstr(line, name);
        fclose(list);
        if (found)
            usleep(10000);
    }
    EXPECT(!found);
}

/* Communicators that come and go leave neither descriptors nor threads; the root's thread ends a little later. */
RANKS_TEST(communicators_leave_nothing_behind, 3, 0)
{
    enum { ROUNDS = 12, FIRST = 2 };
    device_start();
    float *values = device_floats(1000, 1.0f);
    CUstream stream = device_stream();
    int files = 0, threads = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        if (rank == 0) {
            EXPECT_NCCL(ncclGetUniqueId(&shared->ids[round % 2]), ncclSuccess);
            atomic_store(&shared->has_id, round + 1);
        }
        ranks_await(&shared->has_id, round + 1);
        ncclComm_t comm;
        EXPECT_NCCL(ncclCommInitRank(&comm, n, shared->ids[round % 2], rank), ncclSuccess);
        EXPECT_NCCL(ncclAllReduce(values, values, 1000, ncclFloat, ncclMax, comm, stream), ncclSuccess);
        EXPECT_CUDA(cuStreamSynchronize(stream));
        EXPECT_NCCL(round % 3 ? ncclCommDestroy(comm) : ncclCommAbort(comm), ncclSuccess);
        ranks_meet(&shared->flags[0],
                   n * (round + 1)); /* an abort is an error for who is still at it: all wait for all */
        if (round == FIRST) {
            files = count_entries("/proc/self/fd", "", "");
            threads = count_entries("/proc/self/task", "", "");
        }
    }
    for (int i = 0; i < RANKS_DEADLINE_S * 100; ++i) {
        if (count_entries("/proc/self/fd", "", "") <= files && count_entries("/proc/self/task", "", "") <= threads)
            return;
        usleep(10000);
    }
    ranks_fail(__FILE__, __LINE__, "no descriptors and no threads are left");
}

/* Rank 0 enqueues what rank 1 never joins, and gives up; its stream ends, and rank 1 gets an error. */
RANKS_TEST(abort_ends_what_is_in_flight, 2, 0)
{
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    device_connect(comm);
    CUstream stream = device_stream();
    float *values = device_floats(COUNT, 1.0f);
    if (rank == 0) {
        for (int i = 0; i < 3; ++i)
            EXPECT_NCCL(device_sum(values, COUNT, comm, stream), ncclSuccess);
        EXPECT_NCCL(ncclRecv(values, COUNT, ncclFloat, 1, comm, stream), ncclSuccess);
        EXPECT_NCCL(ncclCommAbort(comm), ncclSuccess);
        EXPECT_CUDA(cuStreamSynchronize(stream));
        atomic_store(&shared->flags[0], 1);
        return;
    }
    ranks_await(&shared->flags[0], 1);
    EXPECT_NCCL(device_sum(values, COUNT, comm, stream), ncclSuccess);
    /* Its signature was there, so the first one may even begin; it cannot end. */
    EXPECT(device_await_error(comm) == ncclRemoteError);
    EXPECT(strstr(ncclGetLastError(comm), "rank 0 aborted its communicator"));
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
}

#ifndef __SANITIZE_ADDRESS__ /* which ends the process at the fault, in its own words */
/* An operation beyond the end of its buffer is a fault of its kernel, as one of the program's own would be. */
RANKS_TEST(a_buffer_that_is_too_short_is_a_fault, 2, 0)
{
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    CUstream stream = device_stream();
    float *values = device_floats(COUNT, 1.0f);
    EXPECT_NCCL(ncclBcast(values, (size_t)64 * COUNT, ncclFloat, 0, comm, stream), ncclSuccess);
    if (rank == 0) {
        EXPECT(cuStreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
        atomic_store(&shared->flags[0], 1);
    }
    ranks_await(&shared->flags[0], 1);
    _exit(0);
}
#endif

/* A rank whose program ends with an operation in flight that no other rank joins does not hang in exit(). */
RANKS_TEST(exit_with_an_operation_in_flight, 2, 0)
{
    static ncclComm_t comm; /* never destroyed */
    comm = device_comm(rank, n, shared, 0);
    device_connect(comm);
    float *values = device_floats(COUNT, 1.0f);
    if (rank == 0)
        EXPECT_NCCL(ncclAllReduce(values, values, COUNT, ncclFloat, ncclSum, comm, device_stream()), ncclSuccess);
}
