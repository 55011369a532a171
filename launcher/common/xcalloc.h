/*
 * xcalloc.h - allocation for the launcher: without memory it prints a message and exits.
 *
 * Only before ranks run or for small things: none of these is called in the supervisor's loop. Never returns NULL.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_XCALLOC_H
#define DDPRUN_LAUNCHER_COMMON_XCALLOC_H

#include <stddef.h>

/* Zeroed memory for `count` things of `size` bytes; free() releases it. */
void *xcalloc(size_t count, size_t size);

void *xrealloc(void *old, size_t size);

char *xstrdup(const char *text);

/* A string by format, as asprintf. */
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
