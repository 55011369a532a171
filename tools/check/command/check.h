/*
 * check.h - `ddprun check`: does the program compute on N ranks what it computes on one?
 *
 * Data flow: check.c plans the runs; each is a ddprun of its own (run.c), whose engines write the reference or compare
 * themselves with it (tools/check/trainer/) and leave rows behind; evidence.c collects them; verdict.c, which is
 * pure, says what they mean; show.c shows it.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_CHECK_H
#define DDPRUN_TOOLS_CHECK_COMMAND_CHECK_H

#include "launcher/options/command.h"

/* Exit codes of its own, besides 0, DDPRUN_EXIT_FAILURE for a difference, CHECK_EXIT_NOT_COMPARABLE (format/run.h) and
 * DDPRUN_EXIT_USAGE. */
enum {
    CHECK_EXIT_PROGRAM_FAILED = 4, /* in place of a program's own 1 or 3 */
};

/* Its options are mixed with ddprun's own, as they may stand before the word, too. Main thread, before any other. */
extern const struct command check_command;

/* ---- options.c ---- */

/* What was asked for. */
struct check_options {
    unsigned steps;        /* 0: not given */
    double tolerance;      /* relative difference that always counts as equal; below 0: not given */
    const char *alone;     /* arguments of the program in runs of one rank; NULL: as in all */
    const char *reference; /* file; NULL: one of its own */
    const char *json;      /* file for what was found; NULL: none */
    bool is_free;          /* steps do not begin from the reference */
    const char *per_rank;  /* with --plan auto: suspects that are state of each rank: "a3,a7"; NULL: none is named */
};
extern struct check_options check_options;

/* The options, for options_mix(). */
extern const struct option_row check_rows[];
void check_options_reset(void);

/* Of ddprun's options those that are refused on the command line, and those that its runs do not get: these, and those
 * whose value check gives. */
extern const char *const check_refuses[], *const check_sets[];

#endif
