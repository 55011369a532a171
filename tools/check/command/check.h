/*
 * check.h - `ddprun check`: does the program compute on N ranks what it computes on one?
 *
 * Data flow: check.c plans the runs; each is a ddprun of its own (run.c), whose engines write the reference or compare
 * themselves with it (tools/check/trainer/) and leave rows behind; evidence.c collects them; verdict.c, which is
 * pure, says what they mean; table.c and json.c show it.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_CHECK_H
#define DDPRUN_TOOLS_CHECK_COMMAND_CHECK_H

#include "launcher/options/command.h"

/* Exit codes of its own, besides 0, DDPRUN_EXIT_FAILURE for a difference, and DDPRUN_EXIT_USAGE. */
enum {
    CHECK_EXIT_NOT_COMPARABLE = 3,
    CHECK_EXIT_PROGRAM_FAILED = 4, /* in place of a program's own 1 or 3 */
};

/* Its options are in ddprun's own table, as they may stand before the word, too. Main thread, before any other one. */
extern const struct command check_command;

#endif
