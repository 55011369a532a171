/*
 * memory.h - allocation for the launcher, which has nothing better to do without memory than to say so and leave.
 *
 * Only before ranks run or for small things: none of these is called in the supervisor's loop. Never returns NULL.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_MEMORY_H
#define DDPRUN_LAUNCHER_COMMON_MEMORY_H

#include <stddef.h>

/* Zeroed memory for `count` things of `size` bytes; free() releases it. */
void *memory_get(size_t count, size_t size);

void *memory_resize(void *old, size_t size);

char *memory_copy(const char *text);

/* A string by format, as asprintf. */
char *memory_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
