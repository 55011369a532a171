/*
 * kth.c - a library that is preloaded and makes the k-th call of a kind fail, of those that ddprun's own objects make:
 * the program `ddprun` and libddprun*.so. kth.sh uses it.
 *
 * KTH_KIND: alloc, open, write, rename, fork, socket or thread. KTH_K: which call fails; 0: none. KTH_IN: ddprun, or
 * rank: the processes of rank 0. KTH_LOG: a file that each process adds to at its end: how many calls of the kind it
 * has made. A call fails as where memory, descriptors, room or processes run out.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);

static const char *kind;
static unsigned long wanted;
static _Atomic unsigned long made;

static bool
is_in(const char *where)
{
    const char *rank = getenv("RANK");
    bool is_ddprun = strcmp(program_invocation_short_name, "ddprun") == 0;
    return strcmp(where, "ddprun") == 0 ? is_ddprun : !is_ddprun && rank != NULL && strcmp(rank, "0") == 0;
}

__attribute__((constructor)) static void
begin(void)
{
    const char *where = getenv("KTH_IN"), *number = getenv("KTH_K");
    if (where == NULL || number == NULL || !is_in(where))
        return;
    wanted = strtoul(number, NULL, 10);
    kind = getenv("KTH_KIND");
}

__attribute__((destructor)) static void
end(void)
{
    const char *path = getenv("KTH_LOG");
    int fd = path != NULL && kind != NULL ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    dprintf(fd, "%lu\n", atomic_load(&made));
    close(fd);
}

/* How helpers of ddprun end. */
SHOWN void
_exit(int code)
{
    end();
    syscall(SYS_exit_group, code);
    __builtin_unreachable();
}

/* Whether this call, of `of`, is to fail. */
static bool
fails(const char *of, const void *caller)
{
    static __thread bool inside;
    Dl_info found;
    if (kind == NULL || strcmp(kind, of) != 0 || inside)
        return false;
    inside = true;
    bool counts = dladdr(caller, &found) != 0 && found.dli_fname != NULL;
    const char *slash = counts ? strrchr(found.dli_fname, '/') : NULL, *name = slash != NULL ? slash + 1 : "";
    counts =
        counts && (strcmp(slash != NULL ? name : found.dli_fname, "ddprun") == 0 || strncmp(name, "libddprun", 9) == 0);
    bool now = counts && atomic_fetch_add(&made, 1) + 1 == wanted;
    inside = false;
    return now;
}

#define FAILS(of) fails(of, __builtin_return_address(0))

/* The function that is hidden by the one of this name. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define FAILING(type, name, parameters, of, number, failure, call) \
    SHOWN type name parameters                                     \
    {                                                              \
        errno = number;                                            \
        return FAILS(of) ? failure : call;                         \
    }
FAILING(void *, malloc, (size_t bytes), "alloc", ENOMEM, NULL, __libc_malloc(bytes))
FAILING(void *, calloc, (size_t count, size_t bytes), "alloc", ENOMEM, NULL, __libc_calloc(count, bytes))
FAILING(void *, realloc, (void *old, size_t bytes), "alloc", ENOMEM, NULL, __libc_realloc(old, bytes))

/* The mode, where there may be one. */
static mode_t
mode_of(int flags, va_list more)
{
    return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
}

#define OPEN(name, parameters, arguments)                 \
    SHOWN int name parameters                             \
    {                                                     \
        va_list more;                                     \
        va_start(more, flags);                            \
        mode_t mode = mode_of(flags, more);               \
        va_end(more);                                     \
        errno = EMFILE;                                   \
        return FAILS("open") ? -1 : REAL(name) arguments; \
    }
OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

FAILING(FILE *, fopen, (const char *path, const char *mode), "open", EMFILE, NULL, REAL(fopen)(path, mode))
FAILING(FILE *, fopen64, (const char *path, const char *mode), "open", EMFILE, NULL, REAL(fopen64)(path, mode))
FAILING(ssize_t, write, (int fd, const void *bytes, size_t count), "write", ENOSPC, -1, REAL(write)(fd, bytes, count))
FAILING(ssize_t, writev, (int fd, const struct iovec *parts, int count), "write", ENOSPC, -1,
        REAL(writev)(fd, parts, count))
FAILING(int, rename, (const char *from, const char *to), "rename", ENOSPC, -1, REAL(rename)(from, to))
FAILING(pid_t, fork, (void), "fork", EAGAIN, -1, REAL(fork)())
FAILING(int, socket, (int domain, int type, int protocol), "socket", EMFILE, -1, REAL(socket)(domain, type, protocol))
FAILING(int, socketpair, (int domain, int type, int protocol, int ends[2]), "socket", EMFILE, -1,
        REAL(socketpair)(domain, type, protocol, ends))

SHOWN int
pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *of)
{
    return FAILS("thread") ? EAGAIN : REAL(pthread_create)(thread, attributes, run, of);
}
