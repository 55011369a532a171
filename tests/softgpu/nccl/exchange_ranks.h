/*
 * exchange_ranks.h - joining and leaving an exchange, for ranks of the tests that go without CUDA.
 */
#ifndef TESTS_SOFTGPU_NCCL_EXCHANGE_RANKS_H
#define TESTS_SOFTGPU_NCCL_EXCHANGE_RANKS_H

#include "nccl/collective.h"
#include "nccl/exchange.h"
#include "ranks.h"

/* Rank 0 makes the unique id, all join. */
void exchange_join(struct exchange *exchange, int rank, int rank_count, struct ranks_shared *shared);

void exchange_leave(struct exchange *exchange);

/* An all-reduce of `count` floats in place, by sums. */
struct collective exchange_sum(float *values, size_t count);

#endif
