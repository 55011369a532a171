/*
 * test_threads.c - what NCCL does on the host: calls of communicators that do not block leave their work to a thread,
 * ranks connect at the first collective, which waits for all of them and may wait for ever, and two threads in one
 * communicator at once get an error that names them.
 */
#include "device.h"

#include "tests/lib/test.h"

enum { COUNT = 1000 };

/* ---- communicators that do not block ---- */

TEST_GROUP(threads, .timeout_s = 100);

/* Rank 1 reaches the first collective after rank 0 has seen that its own call is under way. */
RANKS_TEST(a_call_that_does_not_block_is_in_progress, 2, 0)
{
    ncclComm_t blocking = device_comm(rank, n, shared, 0), comm = device_begin_comm(rank, n, shared, 1);
    EXPECT(device_await_ready(comm) == ncclSuccess);
    ncclComm_t other = device_begin_comm(rank, n, shared, 2);
    EXPECT(device_await_ready(other) == ncclSuccess);
    float *values = device_floats(COUNT, 1.0f);
    if (rank == 1)
        ranks_await(&shared->flags[0], 1);
    EXPECT_NCCL(device_sum(values, COUNT, comm, NULL), ncclInProgress);
    if (rank == 0) {
        ncclResult_t state;
        EXPECT_NCCL(ncclCommGetAsyncError(comm, &state), ncclSuccess);
        EXPECT(state == ncclInProgress);
        EXPECT_NCCL(device_sum(values, COUNT, comm, NULL), ncclInvalidArgument);
        EXPECT(strstr(ncclGetLastError(comm), "still under way"));
        atomic_store(&shared->flags[0], 1);
    }
    EXPECT(device_await_ready(comm) == ncclSuccess);
    expect_all(values, COUNT, (float)n);

    EXPECT_NCCL(ncclGroupStart(), ncclSuccess);
    EXPECT_NCCL(device_sum(values, COUNT, comm, NULL), ncclSuccess);
    EXPECT_NCCL(device_sum(values, COUNT, blocking, NULL), ncclSuccess);
    EXPECT_NCCL(ncclGroupEnd(), ncclInvalidArgument);

    /* One thread for the group, whose result both communicators have. */
    EXPECT_NCCL(ncclGroupStart(), ncclSuccess);
    EXPECT_NCCL(device_sum(values, COUNT, comm, NULL), ncclSuccess);
    EXPECT_NCCL(device_sum(values, COUNT, other, NULL), ncclSuccess);
    EXPECT_NCCL(ncclGroupEnd(), ncclInProgress);
    EXPECT(device_await_ready(other) == ncclSuccess && device_await_ready(comm) == ncclSuccess);
    expect_all(values, COUNT, (float)(n * n * n));
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(other), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(blocking), ncclSuccess);
}

/* A call that waits for a rank that never comes is given up with its communicator. */
RANKS_TEST(a_call_in_progress_is_given_up, 2, 0)
{
    ncclComm_t comm = device_begin_comm(rank, n, shared, 0);
    EXPECT(device_await_ready(comm) == ncclSuccess);
    if (rank == 0) {
        EXPECT_NCCL(device_sum(device_floats(COUNT, 1.0f), COUNT, comm, NULL), ncclInProgress);
        EXPECT_NCCL(ncclCommAbort(comm), ncclSuccess);
        atomic_store(&shared->flags[0], 1);
        return;
    }
    ranks_await(&shared->flags[0], 1);
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
}

/* ---- the first collective ---- */

/* Rank 0 returns from its first call after rank 1 has reached its own; rank 0's second call does not wait. */
COMM_TEST(the_first_collective_connects, 2, 0)
{
    float *values = device_floats(COUNT, 1.0f);
    if (rank == 1) {
        ranks_await(&shared->flags[0], 1);
        usleep(20000); /* in which a call that does not wait would be over */
        atomic_store(&shared->flags[1], 1);
    }
    atomic_store(&shared->flags[0], 1);
    EXPECT_NCCL(device_sum(values, COUNT, comm, NULL), ncclSuccess);
    EXPECT(atomic_load(&shared->flags[1]) == 1);
    if (rank == 1)
        ranks_await(&shared->flags[2], 1);
    EXPECT_NCCL(device_sum(values, COUNT, comm, NULL), ncclSuccess);
    atomic_store(&shared->flags[2], 1);
    expect_all(values, COUNT, (float)(n * n));
}

/* A call in a thread of its own. */
struct caller {
    pthread_t thread;
    float *values;
    ncclComm_t comm;
    ncclResult_t result;
    _Atomic bool has_returned;
};

static void *
call(void *argument)
{
    struct caller *caller = argument;
    caller->result = device_sum(caller->values, COUNT, caller->comm, NULL);
    atomic_store(&caller->has_returned, true);
    return NULL;
}

static void
start_call(struct caller *caller, ncclComm_t comm)
{
    *caller = (struct caller){.comm = comm, .values = device_floats(COUNT, 1.0f)};
    EXPECT(pthread_create(&caller->thread, NULL, call, caller) == 0);
}

/* The last rank dies in place of its first collective: the others' calls return as their communicators are aborted. */
RANKS_LOOP_TEST(death_before_connections, 2, 4, 1u << (_i - 1))
{
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    ranks_meet(&shared->flags[0], n);
    if (rank == n - 1)
        kill(getpid(), SIGKILL);
    struct caller caller;
    start_call(&caller, comm);
    EXPECT(device_await_error(comm) == ncclRemoteError); /* while the other thread is inside: allowed */
    char text[200];
    snprintf(text, sizeof(text), "the process of rank %d ended while rank %d waits for it in the first collective",
             n - 1, rank);
    EXPECT(strstr(ncclGetLastError(comm), text));
    EXPECT(!atomic_load(&caller.has_returned));
    ranks_meet(&shared->flags[1], n - 1); /* an abort is another reason for those who have not found the first */
    EXPECT_NCCL(ncclCommAbort(comm), ncclSuccess);
    EXPECT(pthread_join(caller.thread, NULL) == 0 && caller.result == ncclRemoteError);
}

/* ---- two threads ---- */

/* While one thread is inside the first all-reduce, in vain, another one registers memory until a call is refused. */
RANKS_TEST(two_threads_in_one_communicator, 2, 0)
{
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    if (rank == 1) {
        ranks_await(&shared->flags[0], 1);
        EXPECT_NCCL(ncclCommAbort(comm), ncclSuccess);
        return;
    }
    struct caller caller;
    start_call(&caller, comm);
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess && !atomic_load(&caller.has_returned)) {
        void *handle;
        result = ncclCommRegister(comm, caller.values, COUNT, &handle);
        if (result == ncclSuccess)
            result = ncclCommDeregister(comm, handle);
    }
    EXPECT(result == ncclInvalidUsage || (atomic_load(&caller.has_returned) && caller.result == ncclInvalidUsage));
    const char *text = ncclGetLastError(comm);
    EXPECT(strstr(text, "two threads use one communicator at once: thread ") && strstr(text, "ncclAllReduce"));
    EXPECT(strstr(text, "ncclCommRegister") || strstr(text, "ncclCommDeregister"));
    ncclResult_t state;
    EXPECT_NCCL(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    EXPECT(state == ncclInvalidUsage); /* and so it stays */
    EXPECT_NCCL(ncclCommAbort(comm), ncclSuccess);
    EXPECT(pthread_join(caller.thread, NULL) == 0);
    atomic_store(&shared->flags[0], 1);
}

static void *
ask(void *argument)
{
    ncclComm_t comm = argument;
    ncclResult_t state;
    while (ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclSuccess)
        continue;
    return NULL;
}

/* Of a communicator that does not block, the question for its state is a call like any other. */
RANKS_TEST(two_threads_that_ask, 1, 0)
{
    ncclComm_t comm = device_begin_comm(rank, n, shared, 0);
    EXPECT(device_await_ready(comm) == ncclSuccess);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, ask, comm) == 0);
    ask(comm);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(strstr(ncclGetLastError(comm), "is inside ncclCommGetAsyncError"));
    EXPECT_NCCL(ncclCommAbort(comm), ncclSuccess);
}

/* What LeakSanitizer reads: a handle stays where a communicator in error refuses to deregister it. */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));

const char *
__lsan_default_suppressions(void)
{
    return "leak:CommRegister\n";
}
