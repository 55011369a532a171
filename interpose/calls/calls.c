/*
 * calls.c - see calls.h. Each hook is the program's own call; what it notes lies in static memory.
 *
 * Hooks may run in any thread, in constructors and in signal handlers: what they note is guarded by a flag that nothing
 * waits for, and a call that meets it taken, or no room, is not noted.
 */
#include "interpose/calls/calls.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { CALLS_AT_MOST = 512, TEXT_BYTES = 128 * 1024, PLACES = 1024 };

static struct host_call calls[CALLS_AT_MOST];
static _Atomic size_t call_count;
static char text[TEXT_BYTES];
static size_t text_used;
static atomic_flag taken = ATOMIC_FLAG_INIT;
static _Atomic(void *) places[PLACES]; /* callers of clocks, by hash; a full table notes no more */
static __thread bool inside __attribute__((tls_model("initial-exec")));

__attribute__((visibility("default"))) size_t ddprun_host_calls(const struct host_call **list_p);

__attribute__((visibility("default"))) size_t
ddprun_host_calls(const struct host_call **list_p)
{
    *list_p = calls;
    return atomic_load(&call_count);
}

/* With `taken`. */
static void
add(enum call_kind kind, const char *name, uint64_t bytes)
{
    size_t count = atomic_load(&call_count);
    for (size_t i = 0; i < count && kind != CALL_CLOCK; ++i) {
        if (calls[i].kind == (uint32_t)kind && strcmp(calls[i].text, name) == 0)
            return;
    }
    size_t length = strlen(name) + 1;
    if (count == CALLS_AT_MOST || length > TEXT_BYTES - text_used)
        return;
    struct host_call *call = &calls[count];
    *call = (struct host_call){.kind = kind, .bytes = bytes, .text = text + text_used};
    memcpy(text + text_used, name, length);
    text_used += length;
    call->depth = backtrace(call->stack, CALL_FRAMES);
    atomic_store(&call_count, count + 1);
}

static void
note(enum call_kind kind, const char *name, uint64_t bytes)
{
    if (inside || atomic_flag_test_and_set(&taken))
        return;
    inside = true;
    add(kind, name, bytes);
    inside = false;
    atomic_flag_clear(&taken);
}

/* Once for each caller. */
static void
note_clock(const char *name, void *caller)
{
    size_t at = (size_t)(((uintptr_t)caller * UINT64_C(0x9E3779B97F4A7C15)) >> 54) % PLACES;
    void *none = NULL;
    for (size_t tries = 0; tries < 8; ++tries, at = (at + 1) % PLACES) {
        if (atomic_load_explicit(&places[at], memory_order_relaxed) == caller)
            return;
        if (atomic_compare_exchange_strong(&places[at], &none, caller)) {
            note(CALL_CLOCK, name, 0);
            return;
        }
        none = NULL;
    }
}

static bool
begins_with(const char *path, const char *begin)
{
    return strncmp(path, begin, strlen(begin)) == 0;
}

/* A file that has been opened. Only regular ones count, and the system's random numbers. */
static void
note_file(int fd, const char *path, bool writes)
{
    struct stat file;
    char absolute[2 * PATH_MAX];
    size_t at = 0;
    if (fd < 0 || inside || path == NULL)
        return;
    if (strcmp(path, "/dev/urandom") == 0 || strcmp(path, "/dev/random") == 0) {
        note(CALL_CLOCK, path, 0);
        return;
    }
    if (begins_with(path, "/proc/") || begins_with(path, "/sys/") || syscall(SYS_fstat, fd, &file) != 0 ||
        !S_ISREG(file.st_mode))
        return;
    if (path[0] != '/' && getcwd(absolute, PATH_MAX) != NULL) {
        at = strlen(absolute);
        absolute[at++] = '/';
    }
    snprintf(absolute + at, sizeof(absolute) - at, "%s", path);
    note(writes ? CALL_WRITES : CALL_READS, absolute, (uint64_t)file.st_size);
}

static bool
may_write(int flags)
{
    return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
}

/* ---- the hooks ---- */

#define NEXT(name)                 \
    static __typeof__(&name) next; \
    if (next == NULL)              \
    *(void **)&next = dlsym(RTLD_NEXT, #name)

/* The mode of a call that creates a file is its next argument. */
#define MODE_AFTER(flags)                                             \
    mode_t mode = 0;                                                  \
    if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) { \
        va_list list;                                                 \
        va_start(list, flags);                                        \
        mode = va_arg(list, mode_t);                                  \
        va_end(list);                                                 \
    }

int open(const char *path, int flags, ...);
int open64(const char *path, int flags, ...);
int openat(int folder, const char *path, int flags, ...);
int openat64(int folder, const char *path, int flags, ...);
unsigned random_device_value(void *device) __asm__("_ZNSt13random_device9_M_getvalEv");

#define OPEN(name)                             \
    int name(const char *path, int flags, ...) \
    {                                          \
        NEXT(name);                            \
        MODE_AFTER(flags)                      \
        int fd = next(path, flags, mode);      \
        note_file(fd, path, may_write(flags)); \
        return fd;                             \
    }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name)                                                                                     \
    int name(int folder, const char *path, int flags, ...)                                                \
    {                                                                                                     \
        NEXT(name);                                                                                       \
        MODE_AFTER(flags)                                                                                 \
        int fd = next(folder, path, flags, mode);                                                         \
        note_file(fd, folder == AT_FDCWD || (fd >= 0 && path[0] == '/') ? path : NULL, may_write(flags)); \
        return fd;                                                                                        \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

#define CREATE(name)                        \
    int name(const char *path, mode_t mode) \
    {                                       \
        NEXT(name);                         \
        int fd = next(path, mode);          \
        note_file(fd, path, true);          \
        return fd;                          \
    }
CREATE(creat)
CREATE(creat64)

#define STREAM(name)                                                                    \
    FILE *name(const char *restrict path, const char *restrict mode)                    \
    {                                                                                   \
        NEXT(name);                                                                     \
        FILE *file = next(path, mode);                                                  \
        if (file != NULL)                                                               \
            note_file(fileno(file), path, mode[0] != 'r' || strchr(mode, '+') != NULL); \
        return file;                                                                    \
    }
STREAM(fopen)
STREAM(fopen64)

time_t
time(time_t *now)
{
    NEXT(time);
    note_clock("time", __builtin_return_address(0));
    return next(now);
}

int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    NEXT(gettimeofday);
    note_clock("gettimeofday", __builtin_return_address(0));
    return next(now, zone);
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
    NEXT(clock_gettime);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        note_clock("clock_gettime", __builtin_return_address(0));
    return next(clock, now);
}

/* std::random_device::operator()() */
unsigned
random_device_value(void *device)
{
    static unsigned (*next)(void *);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "_ZNSt13random_device9_M_getvalEv");
    note_clock("std::random_device", __builtin_return_address(0));
    return next(device);
}
