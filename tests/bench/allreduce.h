/*
 * allreduce.h - what the all-reduce benchmarks (allreduce_nccl.c, allreduce_ddp.cu, allreduce_mpi.c) share, so that
 * they measure the same: the sizes, how often, and how a time is printed for softgpu.c to read.
 *
 * A time is the median over the repetitions of the time that the slowest rank took, all starting at a barrier.
 */
#ifndef DDPRUN_TESTS_BENCH_ALLREDUCE_H
#define DDPRUN_TESTS_BENCH_ALLREDUCE_H

#include <stddef.h>
#include <stdio.h>
#include <time.h>

enum { ALLREDUCE_SIZES = 6, ALLREDUCE_BAR_BYTES = 1 << 20, ALLREDUCE_RANKS_AT_MOST = 64 };

static const struct {
    size_t bytes;
    int repetitions;
} allreduce_sizes[ALLREDUCE_SIZES] = {{4 << 10, 61}, {64 << 10, 61}, {256 << 10, 41},
                                      {1 << 20, 41}, {16 << 20, 11}, {64 << 20, 5}};

#define ALLREDUCE_LINE "all-reduce of %zu bytes took %lf s\n"

static inline double
allreduce_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void
allreduce_print(size_t bytes, double seconds)
{
    printf("all-reduce of %zu bytes took %.9f s\n", bytes, seconds);
}

#endif
