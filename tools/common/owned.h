/*
 * owned.h - what a block of code holds until it ends, by whichever way; errno stays as it was.
 */
#ifndef DDPRUN_TOOLS_COMMON_OWNED_H
#define DDPRUN_TOOLS_COMMON_OWNED_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* OWNED char *path = xasprintf("%s/log", folder); is freed. OWNED_FD int fd = open(path, O_RDONLY); is closed, unless
 * it is below 0. Both are initialised where they are declared. `return HANDED_ON(path);` gives it to the caller. */
#define OWNED    __attribute__((cleanup(owned_free)))
#define OWNED_FD __attribute__((cleanup(owned_close)))
#define HANDED_ON(pointer)                    \
    __extension__({                           \
        __typeof__(pointer) held = (pointer); \
        (pointer) = NULL;                     \
        held;                                 \
    })

static inline void
owned_free(void *place)
{
    int cause = errno; /* free() of older C libraries changes it */
    void *held;
    memcpy(&held, place, sizeof(held));
    free(held);
    errno = cause;
}

static inline void
owned_close(const int *fd)
{
    int cause = errno;
    if (*fd >= 0)
        (void)close(*fd);
    errno = cause;
}

#endif
