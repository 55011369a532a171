/*
 * raw.h - the system calls that this library makes for itself: they pass no hook, neither its own nor another
 * library's. On x86-64 and aarch64 the kernel's struct stat is libc's. They return -1 with errno, as those of libc.
 */
#ifndef DDPRUN_TOOLS_SANDBOX_RAW_H
#define DDPRUN_TOOLS_SANDBOX_RAW_H

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What a hook returns in place of a call that fails. */
static inline int
files_fail(int error)
{
    errno = error;
    return -1;
}

static inline int
raw_lstat(const char *path, struct stat *found)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW);
}

static inline int
raw_fstat(int fd, struct stat *found)
{
    return (int)syscall(SYS_fstat, fd, found);
}

static inline int
raw_open(const char *path, int flags, mode_t mode)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
}

static inline int
raw_mkdir(const char *path, mode_t mode)
{
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

static inline int
raw_unlink(const char *path)
{
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

static inline int
raw_link(const char *path, const char *name)
{
    return (int)syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, name, 0);
}

/* The length; the text is not ended. */
static inline ssize_t
raw_readlink(const char *path, char *target, size_t size)
{
    return syscall(SYS_readlinkat, AT_FDCWD, path, target, size);
}

static inline int
raw_access(const char *path, int how)
{
    return (int)syscall(SYS_faccessat, AT_FDCWD, path, how);
}

static inline int
raw_rename(const char *path, const char *name, unsigned flags)
{
    if (flags == 0) /* older kernels have no renameat2 */
        return (int)syscall(SYS_renameat, AT_FDCWD, path, AT_FDCWD, name);
    return (int)syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, name, flags);
}

#endif
