/*
 * inner_run.h - a ddprun that starts others like itself and stays with each until its end: `ddprun check`,
 * `ddprun predict` and `ddprun scout`. One thread.
 */
#ifndef DDPRUN_TOOLS_COMMON_INNER_RUN_H
#define DDPRUN_TOOLS_COMMON_INNER_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* From now on SIGCHLD and the signals that ask for the end are read by inner_run_next_signal(). *old: the mask that the
 * inner ddprun gets. */
void inner_run_block_signals(sigset_t *old);

/* The next such signal, or 0 after a quarter of a second. */
int inner_run_next_signal(void);

/* Whether the child has ended; then its status is in *status_p, and it is no longer a child. Does not wait. */
bool inner_run_has_ended(pid_t pid, int *status_p);

#endif
