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
read_date(const void *caller)
{
    int64_t us = date_read_us(caller);
    return (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
}

time_t
time(time_t *now)
{
    if (!is_ours("time", __builtin_return_address(0)))
        return REAL(time)(now);
    time_t date = read_date(__builtin_return_address(0)).tv_sec;
    if (now != NULL)
        *now = date;
    return date;
}

int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    if (!is_ours("gettimeofday", __builtin_return_address(0)))
        return REAL(gettimeofday)(now, zone);
    struct timespec date = read_date(__builtin_return_address(0));
    *now = (struct timeval){.tv_sec = date.tv_sec, .tv_usec = date.tv_nsec / 1000};
    return 0;
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
    bool is_date = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (!is_date || !is_ours("clock_gettime", __builtin_return_address(0)))
        return REAL(clock_gettime)(clock, now);
    *now = read_date(__builtin_return_address(0));
    return 0;
}

int
timespec_get(struct timespec *now, int base)
{
    if (base != TIME_UTC || !is_ours("timespec_get", __builtin_return_address(0)))
        return REAL(timespec_get)(now, base);
    *now = read_date(__builtin_return_address(0));
    return base;
}

/* std::chrono::system_clock::now(): nanoseconds since 1970. */
int64_t system_clock_now(void) __asm__("_ZNSt6chrono3_V212system_clock3nowEv");

int64_t
system_clock_now(void)
{
    struct timespec now = {0, 0};
    if (is_ours("std::chrono::system_clock::now", __builtin_return_address(0)))
        now = read_date(__builtin_return_address(0));
    else
        (void)REAL(clock_gettime)(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- random bytes ---- */

static uint32_t
next_number(void)
{
    uint32_t number;
    date_fill(&number, sizeof(number));
    return number;
}

/* `ours`: what the program gets. */
#define HOOK_RANDOM(type, name, declared, given, ours)                                        \
    type name declared                                                                        \
    {                                                                                         \
        return is_ours(#name, __builtin_return_address(0)) ? (type)(ours) : REAL(name) given; \
    }
HOOK_RANDOM(ssize_t, getrandom, (void *bytes, size_t count, unsigned flags), (bytes, count, flags),
            (date_fill(bytes, count), count))
HOOK_RANDOM(int, getentropy, (void *bytes, size_t count), (bytes, count), (date_fill(bytes, count), 0))
HOOK_RANDOM(uint32_t, arc4random, (void), (), next_number())
HOOK_RANDOM(uint32_t, arc4random_uniform, (uint32_t bound), (bound), bound > 0 ? next_number() % bound : 0)

void
arc4random_buf(void *bytes, size_t count)
{
    if (is_ours("arc4random_buf", __builtin_return_address(0)))
        date_fill(bytes, count);
    else
        REAL(arc4random_buf)(bytes, count);
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
    if (is_ours("std::random_device", __builtin_return_address(0)))
        return next_number();
    void *function = random_device_of(__builtin_return_address(0));
    if (function != NULL)
        value = ((unsigned (*)(void *))function)(device);
    else
        (void)syscall(SYS_getrandom, &value, sizeof(value), 0);
    return value;
}
