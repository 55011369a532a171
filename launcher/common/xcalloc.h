/*
 * xcalloc.h - allocation for the launcher, and lists of words: without memory it prints a message and exits.
 *
 * Before ranks run, and for small things while they do: a job whose supervisor gets no memory ends. Never returns NULL.
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

/* ---- words ---- */

/* The words of a command, in the form that execve wants: NULL-terminated, each malloc'ed. Zeroed: no words. `list` is
 * released with words_free(). */
struct word_list {
    char **list; /* NULL as long as there are no words */
    size_t count;
};

/* Takes `word`, which is malloc'ed. */
void word_list_add(struct word_list *words, char *word);

/* A NULL-terminated list of malloc'ed words, and they; NULL is ignored. */
void words_free(char **words);

#endif
