/*
 * inner_run.h - a ddprun that starts others like itself and stays with each until its end: `ddprun check`,
 * `ddprun predict` and `ddprun scout`. One thread.
 */
#ifndef DDPRUN_TOOLS_COMMON_INNER_RUN_H
#define DDPRUN_TOOLS_COMMON_INNER_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* From now on SIGCHLD and the signals that ask for the end are read by inner_run_next_signal(). *old: the mask that the
 * inner ddprun gets. */
void inner_run_block_signals(sigset_t *old);

/* The next such signal, or 0 after a quarter of a second. */
int inner_run_next_signal(void);

/* Whether the child has ended; then its status is in *status_p, and it is no longer a child. Does not wait. */
bool inner_run_has_ended(pid_t pid, int *status_p);

/* ---- inner_log.c: what a ddprun that another one has started, and its ranks, have written to files ---- */
/* The first message of ddprun's own in the file, without "ddprun: "; nothing changes where there is none, or where
 * `message` is not empty. */
void inner_log_read(const char *path, char *message, size_t size);

/* Shows the last lines of the file on stderr; false if there is nothing in it. */
bool inner_log_show_end(const char *path);

#endif
