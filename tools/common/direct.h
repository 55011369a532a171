/*
 * direct.h - opens a file as the kernel sees it, and reads and writes all of a part. What a tool and its library in the
 * trainer say to each other passes by the folder into which libddprun-files.so may redirect the trainer
 * (tools/sandbox/).
 */
#ifndef DDPRUN_TOOLS_COMMON_DIRECT_H
#define DDPRUN_TOOLS_COMMON_DIRECT_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As open(). */
static inline int
open_direct(const char *path, int flags, unsigned mode)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* So many bytes to or from place `at` of the file; below 0: where the descriptor is. False with errno: not all of them;
 * EINVAL: the file ends before. */
static inline bool
direct_write(int fd, const void *data, size_t bytes, off_t at)
{
    for (size_t done = 0; done < bytes;) {
        const char *from = (const char *)data + done;
        ssize_t written = at < 0 ? write(fd, from, bytes - done) : pwrite(fd, from, bytes - done, at + (off_t)done);
        if (written == 0)
            errno = EIO;
        if (written == 0 || (written < 0 && errno != EINTR))
            return false;
        done += written > 0 ? (size_t)written : 0;
    }
    return true;
}

static inline bool
direct_read(int fd, void *data, size_t bytes, off_t at)
{
    for (size_t done = 0; done < bytes;) {
        char *to = (char *)data + done;
        ssize_t got = at < 0 ? read(fd, to, bytes - done) : pread(fd, to, bytes - done, at + (off_t)done);
        if (got == 0)
            errno = EINVAL;
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

#endif
