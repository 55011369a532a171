/*
 * inner_run.h - a ddprun that starts others like itself and stays with each until its end: `ddprun check`
 * and `ddprun scout`. One thread.
 */
#ifndef DDPRUN_TOOLS_COMMON_INNER_RUN_H
#define DDPRUN_TOOLS_COMMON_INNER_RUN_H

#include "launcher/options/options.h"

#include <signal.h>
#include <sys/types.h>

/* From now on SIGCHLD, SIGUSR1, SIGUSR2 and the signals that ask for the end are read by inner_run_goes_on(). *old: the
 * mask that the inner ddprun gets. */
void inner_run_block_signals(sigset_t *old);

/* An inner ddprun: silent, it starts no job again, and reads nothing. Borrowed, but for `words`. */
struct inner_start {
    const struct options *options; /* of this one: it gets what the command line said, */
    const char *const *sets;       /* but for these; their settings are removed, too */
    bool one_rank;                 /* and of --gpus the first */
    struct word_list words;        /* options besides; freed */
    const char *summary;           /* a file */
    char *const *program;          /* with its arguments */
    const char *errors;            /* a file for what it says on stderr; NULL: to where this process writes */
    bool output;                   /* and on stdout */
    const char *(*environment)[2]; /* names and values besides; ends with NULL */
    const sigset_t *old_mask;      /* of inner_run_block_signals() */
};

/* Starts it in a process group of its own, told to end when this process dies. -1 with errno. */
pid_t inner_run_start(struct inner_start *start) MUST_USE;

struct inner_run {
    pid_t pid;
    int64_t begin_ms, asked_ms; /* when it was started, or has shown a step, and was asked to end; 0: not yet */
    int signal;                 /* that asked for the end; 0: none */
    int code;                   /* of its end, or 128 + signal */
    int look_each_ms;           /* the caller looks at the run so often; 0: in a sixteenth of what the run took, but
                                   four times a second at least */
};

/* Waits for the next such signal, or until the caller looks at the run again; hands the signal on, and kills a run that
 * was asked to end and does not. False: the run has ended, and is no longer a child. */
bool inner_run_goes_on(struct inner_run *run);

/* Asks it to end, once. */
void inner_run_end(struct inner_run *run);

/* Whether it was started more than so many seconds ago, and has not been asked to end. */
bool inner_run_is_late(const struct inner_run *run, unsigned limit_s);

/* On a terminal, one line on stderr that is written over, "ddprun: ...", cut to the terminal's width; NULL: the line is
 * taken away. Elsewhere a line each minute that the work takes. One thread. */
void inner_run_show(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- inner_log.c: what a ddprun that another one has started, and its ranks, have written to files ---- */
/* The first message of ddprun's own in the file, without "ddprun: "; nothing changes where there is none, or where
 * `message` is not empty. */
void inner_log_read(const char *path, char *message, size_t size);

/* The reason that the summary has; "" without one. */
void inner_run_reason(const char *summary, char *reason, size_t room);

/* Shows the last lines of the file on stderr; false if there is nothing in it. */
bool inner_log_show_end(const char *path);

#endif
