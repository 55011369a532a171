/*
 * option_table.h - the table of ddprun's own options (options.def), for the files that parse them (options.c), hold
 * them against each other (contradictions.c), print their help (help.c), apply settings (settings.c) and go through
 * rows with a flag.
 */
#ifndef DDPRUN_LAUNCHER_OPTIONS_OPTION_TABLE_H
#define DDPRUN_LAUNCHER_OPTIONS_OPTION_TABLE_H

#include "launcher/options/command.h"
#include "launcher/options/options.h"

/* Up to one without a name; constant once main() has mixed in a command's. */
extern struct option_row option_rows[OPTION_ROWS_AT_MOST + 1];

/* Options that stand among ddprun's own, before the word or after it: `rows`, in which each says where its value is.
 * Once, before the first command line. */
void options_mix(const struct command *command, const struct option_row *rows);

/* ddprun without a command, or before one. */
extern const struct command ddprun_command;

/* The row of an option in options->given. */
const struct option_row *option_row_of_given(const char *given);

/* ---- contradictions.c ---- */

/* Error (DDPRUN_EXIT_USAGE): two options exclude each other, wherever they come from. */
bool contradictions_check(const struct options *options, struct error *error) MUST_USE;

/* ---- settings.c ---- */

/* Applies the environment's settings, but for what the command line gives. Error (DDPRUN_EXIT_USAGE): a value is
 * wrong, or a name nearly right. */
bool settings_apply(struct options *options, struct error *error) MUST_USE;

/* "bucket-mb" gives "DDPRUN_BUCKET_MB". */
void settings_variable_name(const char *option, char *name, size_t bytes);

#endif
