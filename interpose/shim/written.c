/*
 * written.c - a file that several ranks of a host write by one name: each replaces what the others have written.
 *
 * The second rank that writes a file reports it, once. A file counts if the process that is the rank empties it as it
 * opens it, or renames another file to its name. A log that is appended to, a file in which each rank has a place, a
 * lock, a cache, and a file that a shell opens do not count. In the job folder a link, named by the hash of the file's
 * name, holds the rank that wrote the file first.
 *
 * An open that does not count costs a comparison. Nothing here allocates or waits.
 */
#include "interpose/shim/shim.h"

#include "base/message.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILES_AT_MOST = 4096, REPORTS_AT_MOST = 8 }; /* of a rank */

static uint64_t
hash_of(const char *path)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (; *path != '\0'; ++path)
        hash = (hash ^ (unsigned char)*path) * 1099511628211u;
    return hash;
}

static bool
read_link(const char *link, char *text, size_t bytes)
{
    ssize_t length = readlink(link, text, bytes - 1);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* A link in the job folder, once: whether this call has made it. */
static bool
make_link(char link[PATH_MAX], const char *kind, uint64_t hash, const char *to)
{
    snprintf(link, PATH_MAX, "%s/%s-%016llx", getenv(DDPRUN_ENV_JOB_DIR), kind, (unsigned long long)hash);
    return symlink(to, link) == 0;
}

/* Several ranks may write these: devices, files of the kernel, locks and caches. */
static bool
is_of_several(const char *path)
{
    static const char *const folders[] = {"/dev/", "/proc/", "/sys/"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); ++i) {
        if (strncmp(path, folders[i], strlen(folders[i])) == 0)
            return true;
    }
    return strstr(path, ".lock") != NULL || strcasestr(path, "cache") != NULL;
}

/* The name of the file. False: it has none, or is a FIFO. */
static bool
find_path(int fd, char path[PATH_MAX])
{
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return read_link(link, path, PATH_MAX) && path[0] == '/' && lseek(fd, 0, SEEK_CUR) >= 0;
}

static void
report(const char *path, int rank, int other)
{
    struct rank_status *status = atomic_load(&shim.status);
    int lower = rank < other ? rank : other, higher = rank < other ? other : rank;
    message_warnings_to(&status->warnings, &status->step);
    message_warning("written_by_several",
                    "ranks %d and %d write %s: each replaces what the other has written; save on one rank only, if "
                    "(DDP_RANK() == 0), or put the rank into the name",
                    lower, higher, path);
}

static void
look(int fd, int rank)
{
    static _Atomic int file_count, report_count;
    char link[PATH_MAX], path[PATH_MAX], own[16], first[16];
    if (!find_path(fd, path) || is_of_several(path) || atomic_load(&file_count) >= FILES_AT_MOST)
        return;
    uint64_t hash = hash_of(path);
    snprintf(own, sizeof(own), "%d", rank);
    if (make_link(link, "written", hash, own)) {
        atomic_fetch_add(&file_count, 1);
        return;
    }
    bool is_of_other = read_link(link, first, sizeof(first)) && strcmp(first, own) != 0;
    if (!is_of_other || !make_link(link, "reported", hash, own))
        return;
    if (atomic_fetch_add(&report_count, 1) < REPORTS_AT_MOST)
        report(path, rank, atoi(first));
}

/* `caller`: NCCL, the engine and the driver know what they write. */
static void
opened(int fd, int flags, const void *caller)
{
    int saved = errno;
    if (fd >= 0 && (flags & O_TRUNC) != 0 && (flags & O_ACCMODE) != O_RDONLY && shim_is_watched() &&
        !exempt_has_driver(caller))
        look(fd, shim.engine->rank);
    errno = saved;
}

/* ---- the hooks ---- */

#define EMPTIES (O_WRONLY | O_TRUNC)
/* Of `fn`, and of its twin for large files. `before` declares what else is given to the function. */
#define HOOK(type, fn, declared, before, given, fd, flags)  \
    __attribute__((visibility("default"))) type fn declared \
    {                                                       \
        before;                                             \
        type result = NEXT(fn) given;                       \
        opened(fd, flags, __builtin_return_address(0));     \
        return result;                                      \
    }
#define HOOKS(type, fn, ...) HOOK(type, fn, __VA_ARGS__) HOOK(type, fn##64, __VA_ARGS__)
#define TAKE_MODE                                                                                        \
    va_list more;                                                                                        \
    va_start(more, flags);                                                                               \
    mode_t mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0; \
    va_end(more)
HOOKS(int, open, (const char *path, int flags, ...), TAKE_MODE, (path, flags, mode), result, flags)
HOOKS(int, openat, (int folder, const char *path, int flags, ...), TAKE_MODE, (folder, path, flags, mode), result,
      flags)
HOOKS(int, creat, (const char *path, mode_t mode), (void)0, (path, mode), result, EMPTIES)
HOOKS(FILE *, fopen, (const char *path, const char *mode), (void)0, (path, mode), result != NULL ? fileno(result) : -1,
      *mode == 'w' ? EMPTIES : 0)

__attribute__((visibility("default"))) int
rename(const char *from, const char *to)
{
    int result = NEXT(rename)(from, to);
    bool counts = result == 0 && shim_is_watched();
    int fd = counts ? (int)syscall(SYS_openat, AT_FDCWD, to, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    opened(fd, EMPTIES, __builtin_return_address(0));
    if (fd >= 0)
        close(fd);
    return result;
}
