/*
 * file_read.c - see file_read.h. The helper reads into memory that both processes share.
 */
#include "launcher/common/file_read.h"

#include "base/protocol.h"
#include "launcher/common/helper.h"
#include "launcher/common/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PIECE_BYTES = 1 << 20 };

/* What a helper reads, and where to. */
struct reading {
    const char *path;
    size_t most;
    struct stat status;
    size_t count;
    char bytes[]; /* one more than `most`, by which a larger file is known */
};

/* Whether the name is that of a descriptor, which ddprun was given open. */
static bool
is_descriptor(const char *path)
{
    return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
           strncmp(path, "/proc/self/fd/", 14) == 0;
}

/* -1 with errno. */
static int
open_file(struct reading *reading)
{
    bool refused, given = is_descriptor(reading->path);
    if (!given) {
        free(path_walk(reading->path, PATH_READ, &refused));
        if (refused) {
            errno = ELOOP;
            return -1;
        }
    }
    int fd = strcmp(reading->path, "-") == 0
                 ? dup(STDIN_FILENO)
                 : open(reading->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (given ? 0 : O_NONBLOCK));
    if (fd < 0 || fstat(fd, &reading->status) != 0)
        return -1;
    mode_t mode = reading->status.st_mode;
    if (S_ISREG(mode) || (given && (S_ISFIFO(mode) || S_ISSOCK(mode))))
        return fd;
    errno = S_ISDIR(mode) ? EISDIR : EINVAL;
    return -1;
}

/* In the helper, whose end closes the file. */
static int
read_whole(const void *data)
{
    struct reading *reading = *(struct reading *const *)data;
    int fd = open_file(reading);
    if (fd < 0)
        return errno;
    for (ssize_t got = 1; got != 0;) {
        size_t left = reading->most + 1 - reading->count;
        got = read(fd, reading->bytes + reading->count, left < PIECE_BYTES ? left : PIECE_BYTES);
        if (got < 0 && errno != EINTR)
            return errno;
        reading->count += got > 0 ? (size_t)got : 0;
        helper_goes_on();
        if (reading->count > reading->most)
            return EFBIG;
    }
    return 0;
}

char *
file_read(const char *path, size_t most, size_t *count, struct stat *status)
{
    size_t room = sizeof(struct reading) + most + 1;
    struct reading *reading =
        mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reading == MAP_FAILED)
        return NULL;
    reading->path = path;
    reading->most = most;
    int cause = helper_do(read_whole, &reading);
    char *bytes = cause == 0 ? malloc(reading->count + 1) : NULL;
    if (bytes != NULL) {
        memcpy(bytes, reading->bytes, reading->count);
        bytes[reading->count] = '\0';
    }
    if (bytes != NULL && count != NULL)
        *count = reading->count;
    if (bytes != NULL && status != NULL)
        *status = reading->status;
    munmap(reading, room);
    errno = cause == 0 ? ENOMEM : cause;
    return bytes;
}

bool
file_read_refused(const char *before, const char *path, const char *behind, struct error *error)
{
    int cause = errno, number = cause == EINTR ? signals_pending_end() : 0;
    if (number != 0)
        return error_set(error, 128 + number, "SIG%s while %s%s%s was read", sigabbrev_np(number), before, path,
                         behind);
    return error_set(error, DDPRUN_EXIT_USAGE, "cannot read %s%s%s: %s", before, path, behind, file_why(cause));
}

const char *
file_why(int cause)
{
    switch (cause) {
    case ETIMEDOUT:
        return "it gave no data for 2 s, like a pipe without a writer or a file server that does not answer";
    case ENXIO:
        return "it is a FIFO without a reader";
    case EFBIG:
        return "it is too large";
    case EINVAL:
        return "it is not a regular file";
    case EISDIR:
        return "it is a folder";
    case ELOOP:
        return "it, or a link to it, belongs to another user, in a folder that others may write to";
    case EINTR:
        return "a signal asked for the end";
    default:
        return strerror(cause);
    }
}
