/*
 * word_list.h - the words of a command, in the form that execve wants: NULL-terminated, each malloc'ed. Main thread.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_WORD_LIST_H
#define DDPRUN_LAUNCHER_COMMON_WORD_LIST_H

#include <stddef.h>

/* Zeroed: no words. `list` is released with environment_free() (launcher/start/environment.h). */
struct word_list {
    char **list; /* NULL as long as there are no words */
    size_t count;
};

/* Takes `word`, which is malloc'ed. */
void word_list_add(struct word_list *words, char *word);

#endif
