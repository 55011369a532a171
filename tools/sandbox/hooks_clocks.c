/*
 * hooks_clocks.c - calls whose answers differ from run to run: with files_date() the program gets the date and the
 * random bytes of date.c.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <dlfcn.h>

/* Whether the call is answered by date.c. */
static bool
is_ours(const char *name, void *caller)
{
    return files_date() != NULL && caller_is_programs(name, caller);
}

/* ---- the date ---- */

static struct timespec
read_date(void)
{
    int64_t us = date_read_us();
    return (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
}

time_t
time(time_t *now)
{
    if (!is_ours("time", __builtin_return_address(0)))
        return REAL(time)(now);
    time_t date = read_date().tv_sec;
    if (now != NULL)
        *now = date;
    return date;
}

int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    if (!is_ours("gettimeofday", __builtin_return_address(0)))
        return REAL(gettimeofday)(now, zone);
    struct timespec date = read_date();
    *now = (struct timeval){.tv_sec = date.tv_sec, .tv_usec = date.tv_nsec / 1000};
    return 0;
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
    bool is_date = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (!is_date || !is_ours("clock_gettime", __builtin_return_address(0)))
        return REAL(clock_gettime)(clock, now);
    *now = read_date();
    return 0;
}

int
timespec_get(struct timespec *now, int base)
{
    if (base != TIME_UTC || !is_ours("timespec_get", __builtin_return_address(0)))
        return REAL(timespec_get)(now, base);
    *now = read_date();
    return base;
}

/* std::chrono::system_clock::now(): nanoseconds since 1970. */
int64_t system_clock_now(void) __asm__("_ZNSt6chrono3_V212system_clock3nowEv");

int64_t
system_clock_now(void)
{
    struct timespec now = {0, 0};
    if (is_ours("std::chrono::system_clock::now", __builtin_return_address(0)))
        now = read_date();
    else
        (void)REAL(clock_gettime)(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- random bytes ---- */

ssize_t
getrandom(void *bytes, size_t count, unsigned flags)
{
    if (!is_ours("getrandom", __builtin_return_address(0)))
        return REAL(getrandom)(bytes, count, flags);
    date_fill(bytes, count);
    return (ssize_t)count;
}

int
getentropy(void *bytes, size_t count)
{
    if (!is_ours("getentropy", __builtin_return_address(0)))
        return REAL(getentropy)(bytes, count);
    date_fill(bytes, count);
    return 0;
}

uint32_t
arc4random(void)
{
    uint32_t value;
    if (!is_ours("arc4random", __builtin_return_address(0)))
        return REAL(arc4random)();
    date_fill(&value, sizeof(value));
    return value;
}

void
arc4random_buf(void *bytes, size_t count)
{
    if (is_ours("arc4random_buf", __builtin_return_address(0)))
        date_fill(bytes, count);
    else
        REAL(arc4random_buf)(bytes, count);
}

uint32_t
arc4random_uniform(uint32_t bound)
{
    uint32_t value;
    if (!is_ours("arc4random_uniform", __builtin_return_address(0)))
        return REAL(arc4random_uniform)(bound);
    date_fill(&value, sizeof(value));
    return bound > 0 ? value % bound : 0;
}

/* ---- std::random_device::operator()() ---- */

#define RANDOM_DEVICE "_ZNSt13random_device9_M_getvalEv"

unsigned random_device_value(void *device) __asm__(RANDOM_DEVICE);

/* The C++ library's. A caller that was loaded with RTLD_LOCAL may have it for itself; NULL: not even there. */
static void *
random_device_of(void *caller)
{
    void *function = dlsym(RTLD_NEXT, RANDOM_DEVICE);
    Dl_info object;
    if (function == NULL && dladdr(caller, &object) != 0) {
        void *handle = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        function = handle != NULL ? dlsym(handle, RANDOM_DEVICE) : NULL;
        if (handle != NULL)
            dlclose(handle);
    }
    return function;
}

unsigned
random_device_value(void *device)
{
    unsigned value = 0;
    if (is_ours("std::random_device", __builtin_return_address(0))) {
        date_fill(&value, sizeof(value));
        return value;
    }
    void *function = random_device_of(__builtin_return_address(0));
    if (function != NULL)
        value = ((unsigned (*)(void *))function)(device);
    else
        (void)syscall(SYS_getrandom, &value, sizeof(value), 0);
    return value;
}
