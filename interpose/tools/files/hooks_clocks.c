/*
 * hooks_clocks.c - calls whose answers differ from run to run. They are noted, and answered as ever.
 */
#include "interpose/tools/files/hooks.h"
#include "interpose/tools/files/overlay.h"
#include "interpose/tools/files/raw.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

time_t
time(time_t *now)
{
    note_clock("time", __builtin_return_address(0));
    return REAL(time)(now);
}

int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    note_clock("gettimeofday", __builtin_return_address(0));
    return REAL(gettimeofday)(now, zone);
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        note_clock("clock_gettime", __builtin_return_address(0));
    return REAL(clock_gettime)(clock, now);
}

/* ---- std::random_device::operator()() ---- */

#define RANDOM_DEVICE "_ZNSt13random_device9_M_getvalEv"

unsigned random_device_value(void *device) __asm__(RANDOM_DEVICE);

/* The C++ library's. A caller that was loaded with RTLD_LOCAL may have it for itself; NULL: not even there. */
static void *
random_device_of(void *caller)
{
    static _Atomic(void *) found;
    void *function = atomic_load_explicit(&found, memory_order_relaxed);
    Dl_info object;
    if (function != NULL)
        return function;
    function = dlsym(RTLD_NEXT, RANDOM_DEVICE);
    if (function == NULL && dladdr(caller, &object) != 0) {
        void *handle = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        function = handle != NULL ? dlsym(handle, RANDOM_DEVICE) : NULL;
        if (handle != NULL)
            dlclose(handle);
    }
    atomic_store_explicit(&found, function, memory_order_relaxed);
    return function;
}

unsigned
random_device_value(void *device)
{
    unsigned value = 0;
    note_clock("std::random_device", __builtin_return_address(0));
    void *function = random_device_of(__builtin_return_address(0));
    if (function != NULL)
        return ((unsigned (*)(void *))function)(device);
    (void)syscall(SYS_getrandom, &value, sizeof(value), 0);
    return value;
}
