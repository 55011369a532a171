/*
 * direct.h - opens a file as the kernel sees it. What a tool and its library in the trainer say to each other passes by
 * the folder into which libddprun-files.so may redirect the trainer (tools/sandbox/).
 */
#ifndef DDPRUN_TOOLS_COMMON_DIRECT_H
#define DDPRUN_TOOLS_COMMON_DIRECT_H

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As open(). */
static inline int
open_direct(const char *path, int flags, unsigned mode)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

#endif
