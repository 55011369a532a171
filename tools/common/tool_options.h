/*
 * tool_options.h - the command line of a tool, and what becomes of ddprun's own options where a tool starts another
 * ddprun. Called by the tools' commands. One thread.
 */
#ifndef DDPRUN_TOOLS_COMMON_TOOL_OPTIONS_H
#define DDPRUN_TOOLS_COMMON_TOOL_OPTIONS_H

#include "launcher/options/options.h"

/*
 * A tool's command line; words[0] is its name. False: it is not to be run, and *exit_code is ddprun's: the help was
 * asked for and is printed, or what is wrong was reported. *rest_p: the words after the options.
 */
bool command_begin(const struct command *command, char **words, void *target, char ***rest_p, int *exit_code) MUST_USE;

/* Its end: flushes standard output; where it has failed, prints why. Returns ddprun's exit code. */
int command_end(bool ok, const struct error *error);

/* Whether standard output is a terminal, of a reader who has not said no (no-color.org). */
bool tool_wants_colour(void);

/* ---- options by their names; `names` ends with NULL ---- */

/* The first of them that was given on the command line, as "--name"; that has a value, wherever it was set. malloc'ed,
 * or NULL: there is none. */
char *options_given(const struct options *options, const char *const *names);
char *options_set(const struct options *options, const char *const *names);

/* An error (DDPRUN_EXIT_USAGE) unless `option` is NULL; frees it. `command`: what it does not go together with. */
bool options_refuse(char *option, const char *command, struct error *error) MUST_USE;

/* For a ddprun that this one starts: the command line's options, but for those of `but`, which may be NULL. `one_rank`:
 * it has one, and one GPU. */
void options_hand_on_but(const struct options *options, const char *const *but, bool one_rank, struct word_list *words);

/* For the same: removes the settings of these options, and of those that are not handed on, from the environment. */
void options_unset_settings(const char *const *names);

#endif
