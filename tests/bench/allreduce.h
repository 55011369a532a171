/*
 * allreduce.h - what the two all-reduce benchmarks (allreduce_nccl.c, allreduce_mpi.c) share, so that they measure the
 * same: the sizes, how often, and how a time is printed for softgpu.c to read.
 *
 * A time is the median over the repetitions of the time that the slowest rank took, all starting at a barrier.
 */
#ifndef DDPRUN_TESTS_BENCH_ALLREDUCE_H
#define DDPRUN_TESTS_BENCH_ALLREDUCE_H

#include <stddef.h>
#include <stdio.h>
#include <time.h>

enum { ALLREDUCE_SIZES = 3, ALLREDUCE_RANKS_AT_MOST = 64 };

static const struct {
    size_t mebibytes;
    int repetitions;
} allreduce_sizes[ALLREDUCE_SIZES] = {{1, 41}, {16, 11}, {64, 5}};

#define ALLREDUCE_LINE "all-reduce of %zu MiB took %lf s\n"

static inline double
allreduce_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void
allreduce_print(size_t mebibytes, double seconds)
{
    printf("all-reduce of %zu MiB took %.9f s\n", mebibytes, seconds);
}

#endif
