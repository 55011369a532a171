/*
 * run.h - one run of a check: a ddprun of its own, from its start to its last process.
 *
 * In a process group of its own, and told to end when this process dies. Its output goes to files in the check's
 * folder, and is shown if the run fails. Main thread; SIGCHLD and the signals that ask for the end are blocked
 * (check.c).
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_RUN_H
#define DDPRUN_TOOLS_CHECK_COMMAND_RUN_H

#include "launcher/options/options.h"
#include "tools/check/format/run.h"

#include <signal.h>

/* What all runs of a check have in common. */
struct check_place {
    const struct options *options;
    const char *folder;    /* of the check */
    const char *shared;    /* beginning of names of files that other hosts have, too; NULL: all is in `folder` */
    bool is_leaf;          /* other processes like this one start the other ranks */
    sigset_t old_mask;     /* for the children */
    int64_t date_us;       /* since 1970, with which compared runs begin */
    unsigned step_limit_s; /* in which the first step, and each one after it, must come */
};

struct check_order {
    const char *name;       /* of its files */
    const char *title;      /* "one rank" */
    bool untold;            /* not announced: it belongs to the run that was announced before it */
    int ranks;              /* 0: as another launcher says, which has started this process */
    char *const *arguments; /* of the program, with its name */
    bool hosts;             /* on the hosts of --hosts */
    bool plain;             /* --no-overlap */
    bool later;             /* it begins with another date than other runs */
    int ahead;              /* rank R has a date that is R times so many FILES_AHEAD_US later */
    int turns;              /* --plan: one process plays the turns of so many ranks; 0: not */
    bool dry;               /* --dry-run: only whether it can be started */
    bool lists_files;       /* those that several ranks write: check_run_files() */
    struct check_run run;   /* but for `results`, which is filled in */
};

struct check_outcome {
    int exit_code;       /* of the run's ddprun, or 128 + signal */
    bool program_failed; /* a rank ended by itself, with another code than 0 or by a signal */
    bool late;           /* it was ended because no step came in time */
    int signal;          /* that asked for the end of the check; 0: none */
    char reason[1024];   /* why it failed, by its summary; empty: unknown */
    uint64_t overlapped_steps;
    char *results; /* malloc'ed: for check_rows_append() */
};

/* Folder of the private folders of the run's ranks, below that of the check, malloc'ed; NULL: they are elsewhere. */
char *check_run_files(const struct check_place *place, const struct check_order *order);

/* Error: the run could not be started. A run that fails is no error. */
bool check_run_make(const struct check_place *place, const struct check_order *order, struct check_outcome *outcome,
                    struct error *error) __attribute__((warn_unused_result));

/* Shows the last lines of what the run's ranks wrote to stderr, to stderr. */
void check_run_show(const struct check_place *place, const struct check_order *order);

#endif
