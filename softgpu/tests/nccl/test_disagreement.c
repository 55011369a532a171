/*
 * test_disagreement.c - when ranks disagree, die, leave or give up in the middle of an operation: every other rank
 * learns it, with a text that says who and where, and none waits for ever. Without CUDA.
 */
#include "exchange_ranks.h"
#include "nccl/collective.h"
#include "nccl/point_to_point.h"
#include "nccl/remote.h"

#include "tests/lib/test.h"

/* An all-reduce of `count` zeros that all ranks take part in. */
static void
reduce_zeros(struct exchange *exchange, size_t count)
{
    float *values = calloc(count, sizeof(*values));
    struct collective what = exchange_sum(values, count);
    collective_run(exchange, &what);
    EXPECT(exchange_error(exchange, NULL, 0) == ncclSuccess);
    free(values);
}

TEST_GROUP(wrong, .timeout_s = 100);

static struct exchange exchange;

RANKS_TEST(different_counts_are_named, 3, 0)
{
    exchange_join(&exchange, rank, n, shared);
    float values[100] = {0};
    reduce_zeros(&exchange, 10);
    struct collective what = exchange_sum(values, rank == 2 ? 99 : 100);
    collective_run(&exchange, &what);
    char text[SEGMENT_TEXT_BYTES];
    EXPECT(exchange_error(&exchange, text, sizeof(text)) == ncclInvalidUsage);
    EXPECT(strstr(text, "rank 0 calls all-reduce of 100 float32 (sum)"));
    EXPECT(strstr(text, "rank 2 calls all-reduce of 99 float32 (sum)"));
    collective_run(&exchange, &what); /* nothing more happens, and nothing hangs */
    exchange_leave(&exchange);
}

RANKS_TEST(different_operations_are_found, 2, 0)
{
    /* Each case: what rank 1 does while rank 0 calls an all-reduce of 64 floats. */
    static const struct collective others[] = {
        {.kind = OPERATION_BROADCAST, .type = ncclFloat32, .op = ncclSum, .root = 0, .count = 64},
        {.kind = OPERATION_ALL_REDUCE, .type = ncclInt32, .op = ncclSum, .root = -1, .count = 64},
        {.kind = OPERATION_ALL_REDUCE, .type = ncclFloat32, .op = ncclMax, .root = -1, .count = 64},
        {.kind = OPERATION_ALL_REDUCE, .type = ncclFloat32, .op = ncclSum, .root = -1, .count = 0},
    };
    for (size_t c = 0; c < sizeof(others) / sizeof(others[0]); ++c) {
        atomic_store(&shared->has_id, 0);
        ranks_meet(&shared->flags[c], n);
        exchange_join(&exchange, rank, n, shared);
        float values[64] = {0};
        struct collective what = exchange_sum(values, 64);
        if (rank == 1)
            what = others[c];
        what.send = what.receive = values;
        collective_run(&exchange, &what);
        EXPECT(exchange_error(&exchange, NULL, 0) == ncclInvalidUsage);
        exchange_leave(&exchange);
        ranks_meet(&shared->flags[8 + c], n);
    }
}

RANKS_TEST(waiting_for_a_rank_that_left_ends, 3, 0)
{
    exchange_join(&exchange, rank, n, shared);
    reduce_zeros(&exchange, 300000);
    if (rank == 1) {
        /* Leaving after a finished operation takes nothing away from those who are still at it. */
        exchange_leave(&exchange);
        return;
    }
    float value = 0;
    struct collective what = exchange_sum(&value, 1);
    collective_run(&exchange, &what);
    char text[SEGMENT_TEXT_BYTES];
    EXPECT(exchange_error(&exchange, text, sizeof(text)) == ncclRemoteError);
    EXPECT(strstr(text, "rank 1 destroyed its communicator"));
    exchange_leave(&exchange);
}

RANKS_TEST(message_of_another_size_is_found, 2, 0)
{
    exchange_join(&exchange, rank, n, shared);
    float values[20] = {0};
    struct transfer transfer = {values, rank == 0 ? 80 : 40, 1 - rank, ncclFloat32, rank == 0};
    transfers_run(&exchange, &transfer, 1, true);
    char text[SEGMENT_TEXT_BYTES];
    if (rank == 1) {
        EXPECT(exchange_error(&exchange, text, sizeof(text)) == ncclInvalidUsage);
        EXPECT(strstr(text, "rank 0 sends 80 bytes of float32 to rank 1, which receives 40 bytes"));
    }
    exchange_leave(&exchange);
}

RANKS_TEST(receiving_from_the_dead_ends, 2, 1)
{
    exchange_join(&exchange, rank, n, shared);
    if (rank == 0)
        kill(getpid(), SIGKILL);
    float value;
    struct transfer transfer = {&value, 4, 0, ncclFloat32, false};
    transfers_run(&exchange, &transfer, 1, true);
    char text[SEGMENT_TEXT_BYTES];
    EXPECT(exchange_error(&exchange, text, sizeof(text)) == ncclRemoteError);
    EXPECT(strstr(text, "the process of rank 0 ended"));
    exchange_leave(&exchange);
}

/* A rank that gives up ends its own wait, and the others get an error. */
static void *
interrupt_soon(void *argument)
{
    struct exchange *exchange = argument;
    /* Not before the other thread sleeps in its wait for rank 1, which the number of sleepers shows. */
    struct segment *segment = &exchange->segment;
    _Atomic uint32_t *waiters =
        segment->remote ? remote_waiters(segment->remote) : &segment->slots[1]->progress[PROGRESS_OPERATION].waiters;
    while (atomic_load(waiters) == 0)
        usleep(1000);
    segment_set_state(&exchange->segment, RANK_ABORTED, NULL);
    segment_interrupt(&exchange->segment);
    return NULL;
}

RANKS_TEST(abort_ends_the_own_wait_and_is_reported, 2, 0)
{
    exchange_join(&exchange, rank, n, shared);
    float value = 0;
    struct collective what = exchange_sum(&value, 1);
    if (rank == 1)
        ranks_await(&shared->flags[0], 1);
    pthread_t thread;
    if (rank == 0)
        EXPECT(pthread_create(&thread, NULL, interrupt_soon, &exchange) == 0);
    collective_run(&exchange, &what);
    char text[SEGMENT_TEXT_BYTES];
    ncclResult_t error = exchange_error(&exchange, text, sizeof(text));
    if (rank == 0) {
        pthread_join(thread, NULL);
        EXPECT(error == ncclInternalError);
        atomic_store(&shared->flags[0], 1);
    } else {
        EXPECT(error == ncclRemoteError);
        EXPECT(strstr(text, "rank 0 aborted its communicator"));
    }
    exchange_release(&exchange);
}
