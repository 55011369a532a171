/*
 * exchange_ranks.h - joining and leaving an exchange, for ranks of the tests that go without CUDA: processes, or
 * threads of the test.
 */
#ifndef TESTS_SOFTGPU_NCCL_EXCHANGE_RANKS_H
#define TESTS_SOFTGPU_NCCL_EXCHANGE_RANKS_H

#include "nccl/bootstrap.h"
#include "nccl/collective.h"
#include "nccl/exchange.h"
#include "ranks.h"

#include <pthread.h>

/* Rank 0 makes the unique id, all join. */
void exchange_join(struct exchange *exchange, int rank, int rank_count, struct ranks_shared *shared);

void exchange_leave(struct exchange *exchange);

/* A rank that is a thread of the test. */
struct joiner {
    pthread_t thread;
    ncclUniqueId id;
    int rank, rank_count;
    struct exchange exchange;
    struct bootstrap_wait wait;
    struct bootstrap_error error;
    ncclResult_t result;
};

ncclUniqueId joiner_id(void);
void joiner_start(struct joiner *joiner, const ncclUniqueId *id, int rank, int rank_count);

/* How its joining ended. */
ncclResult_t joiner_end(struct joiner *joiner);

/* An all-reduce of `count` floats in place, by sums. */
struct collective exchange_sum(float *values, size_t count);

#endif
