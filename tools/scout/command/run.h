/*
 * run.h - the scouted program: a ddprun of its own, from its start to its last process.
 *
 * In a process group of its own, and told to end when this process dies. Main thread; SIGCHLD and the signals that ask
 * for the end are blocked (scout.c).
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_RUN_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_RUN_H

#include "launcher/options/options.h"
#include "tools/scout/format/run.h"

#include <signal.h>
#include <sys/types.h>

struct scout_order {
    const struct options *options;
    char *const *program; /* with its arguments */
    const char *folder;   /* for its files */
    sigset_t old_mask;    /* for the child */
    unsigned steps;       /* after so many periods the program is ended; 0: it goes on to its end */
    unsigned timeout_s;   /* in which all must be recorded */
    bool silent;          /* what the program prints is dropped */
    int ranks;            /* of `--plan auto`, for proof (d) (prove.h); else 0 */
};

struct scout_outcome {
    int exit_code;                /* of the run's ddprun, or 128 + signal */
    int signal;                   /* that asked for the end; 0: none */
    bool late;                    /* it was ended because of --timeout */
    bool hung;                    /* it was ended because a repeated launch did not end */
    bool refused;                 /* periods were recorded that are none of a step */
    bool unlike;                  /* periods were recorded that disagree, and further ones were asked for */
    struct scout_left_out failed; /* the launch that was made again when it ended by itself, or hung */
    unsigned runs;                /* that were made */
    char left_out[1024];          /* launches that ended runs when they were made again: what came of each; "": none */
    char reason[1024];            /* why it failed, by its summary; empty: unknown */
    struct scout_progress progress; /* where it ended */
    char *log;                      /* path, malloc'ed; the file exists if the program became a rank */
};

/* A ddprun that is started with the program. */
struct scout_child {
    const char *variable, *value; /* of the environment: its name, and the file that it names */
    int ranks;
    bool silent;         /* what the program prints is dropped */
    const char *summary; /* its ddprun's, a file */
    const char *errors;  /* a file for what goes to stderr: its ddprun says there what this one says in one line */
    const char *date;    /* FILES_ENV_DATE; NULL: that of all runs */
};

/* Returns its process, -1 with errno. It is a process group of its own. */
pid_t scout_child_start(const struct scout_order *order, const struct scout_child *child) MUST_USE;

/* Of ddprun's options those whose value in the runs scout gives; ends with NULL. */
extern const char *const scout_sets[];

/* Error: the run could not be started. A run that fails is no error. */
bool scout_run_make(const struct scout_order *order, struct scout_outcome *outcome, struct error *error) MUST_USE;

/* Runs the program once more, in silence and without writing files of the user's, and ends it after so many operations:
 * `log` gets them, of which no launch is repeated. `is_other`: it sees another date and other random bytes, as another
 * rank does. False: the run did not come so far. */
bool scout_run_again(const struct scout_order *order, const char *log, uint64_t operations, bool is_other) MUST_USE;

/* Whether the recording is of use; if not, why. */
bool scout_run_judge(const struct scout_order *order, const struct scout_outcome *outcome,
                     struct error *error) MUST_USE;

#endif
