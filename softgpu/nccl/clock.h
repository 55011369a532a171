/*
 * clock.h - the clock of all deadlines here.
 */
#ifndef SOFTGPU_NCCL_CLOCK_H
#define SOFTGPU_NCCL_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC. */
static inline int64_t
clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
