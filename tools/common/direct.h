/*
 * direct.h - opens a file as the kernel sees it, and reads and writes all of a part. What a tool and its library in the
 * trainer say to each other passes by the folder into which libddprun-files.so may redirect the trainer
 * (tools/sandbox/).
 */
#ifndef DDPRUN_TOOLS_COMMON_DIRECT_H
#define DDPRUN_TOOLS_COMMON_DIRECT_H

#include "tools/common/owned.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* As open(). */
static inline int
open_direct(const char *path, int flags, unsigned mode)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* So many bytes to or from place `at` of the file; below 0: where the descriptor is. False with errno: not all of them;
 * EINVAL: the file ends before. */
#define DIRECT_MOVES(name, type, here, there, if_none)                                                               \
    static inline bool name(int fd, type *data, size_t bytes, off_t at)                                              \
    {                                                                                                                \
        for (size_t done = 0; done < bytes;) {                                                                       \
            type *rest = (char *)data + done;                                                                        \
            ssize_t moved = at < 0 ? here(fd, rest, bytes - done) : there(fd, rest, bytes - done, at + (off_t)done); \
            if (moved == 0)                                                                                          \
                errno = if_none;                                                                                     \
            if (moved == 0 || (moved < 0 && errno != EINTR))                                                         \
                return false;                                                                                        \
            done += moved > 0 ? (size_t)moved : 0;                                                                   \
        }                                                                                                            \
        return true;                                                                                                 \
    }
DIRECT_MOVES(direct_write, const void, write, pwrite, EIO)
DIRECT_MOVES(direct_read, void, read, pread, EINVAL)

/* A file of these bytes, mode 0600, in place of what it held. False with errno. */
static inline bool
direct_save(const char *path, const void *data, size_t bytes)
{
    int fd = open_direct(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && direct_write(fd, data, bytes, -1);
    return fd >= 0 && close(fd) == 0 && ok;
}

/* The first bytes of a file. */
static inline bool
direct_load(const char *path, void *data, size_t bytes)
{
    OWNED_FD int fd = open_direct(path, O_RDONLY | O_CLOEXEC, 0);
    return fd >= 0 && direct_read(fd, data, bytes, -1);
}

/* The pages of a file, shared; `create`: makes it, mode 0600, of zeros, with room on the disk for all of it: else a
 * write would end the process by SIGBUS. NULL with errno. Ends with munmap(). */
static inline void *
direct_map(const char *path, size_t bytes, bool create)
{
    OWNED_FD int fd = open_direct(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT | O_TRUNC : 0), 0600);
    void *pages = MAP_FAILED;
    int full = fd >= 0 && create ? posix_fallocate(fd, 0, (off_t)bytes) : 0;
    if (fd >= 0 && full == 0)
        pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    errno = full != 0 ? full : errno;
    return pages != MAP_FAILED ? pages : NULL;
}

#endif
