/*
 * substitute.h - {rank}, {local_rank} and {world_size} in a program's arguments and variables.
 */
#ifndef DDPRUN_LAUNCHER_OPTIONS_SUBSTITUTE_H
#define DDPRUN_LAUNCHER_OPTIONS_SUBSTITUTE_H

/* Numbers to put in. */
struct places {
    int rank, local_rank, world_size;
};

/* A new string: `text` with the three names replaced; other braces stay as they are. */
char *substitute_text(const char *text, const struct places *places);

/* A new NULL-terminated list of new strings; release with words_free(). */
char **substitute_list(char *const *list, const struct places *places);

#endif
