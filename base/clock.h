/*
 * clock.h - the time for deadlines and traces: nano-, micro- and milliseconds of the monotonic clock, which is never
 * set back; and the time of day.
 */
#ifndef DDPRUN_BASE_CLOCK_H
#define DDPRUN_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t
clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The same without a sign, for times of which 0 says that there is none. */
static inline uint64_t
clock_ns(void)
{
    return (uint64_t)clock_now_ns();
}

/* The time of day. */
static inline int64_t
clock_unix_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* As of the last tick of the kernel, some milliseconds ago, for a quarter of the cost. */
static inline int64_t
clock_last_tick_ns(void)
{
    struct timespec tick;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
    return (int64_t)tick.tv_sec * 1000000000 + tick.tv_nsec;
}

static inline int64_t
clock_now_us(void)
{
    return clock_now_ns() / 1000;
}

static inline int64_t
clock_now_ms(void)
{
    return clock_now_us() / 1000;
}

#endif
