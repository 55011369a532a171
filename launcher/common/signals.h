/*
 * signals.h - the launcher's signals, read from a descriptor instead of interrupting anything.
 *
 * signals_take_over() stands before any thread is made (PMIx, relays), so that all of them inherit the blocked mask.
 * What was ignored when ddprun started (nohup, background jobs of a script) stays ignored.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_SIGNALS_H
#define DDPRUN_LAUNCHER_COMMON_SIGNALS_H

#include "launcher/common/error.h"

#include <signal.h>
#include <sys/types.h>

/* Comes when the ddprun of this host, which has started this one, ends (prctl(2), PR_SET_PDEATHSIG). Any other
 * sender asks for the end: signals_is_orphaned() tells the two apart. */
#define SIGNALS_ORPHANED SIGPWR

struct signals {
    int fd;                                   /* signalfd; non-blocking */
    pid_t parent;                             /* that this process had at signals_take_over() */
    sigset_t old_mask;                        /* for the ranks */
    struct sigaction old_pipe, old_file_size; /* likewise, for SIGPIPE and SIGXFSZ, which the launcher ignores */
};

bool signals_take_over(struct signals *signals, struct error *error) MUST_USE;

/* The next pending signal's number, 0: no signal is pending. */
int signals_next(const struct signals *signals);

/* The next pending signal that asks for the end, 0: no such signal is pending. Those before it are lost. */
int signals_next_end(const struct signals *signals);

/* Whether a signal has asked for the end since signals_take_over(), whichever function read it. Those that wait are
 * read. */
bool signals_end_was_asked(const struct signals *signals);

/* Whether the process that has started this one is gone. */
bool signals_is_orphaned(const struct signals *signals);

/* SIGUSR1, SIGUSR2: meant for the ranks, as their sender does not know the ranks' processes. The ranks decide what the
 * signal means. */
bool signals_is_for_ranks(int number);

/* One that asks for the end, and by which a process that has no handler of it ends. */
bool signals_is_for_end(int number);

/* The number of a signal that asks for the end and waits to be read, 0: there is none. It is left where it is. */
int signals_pending_end(void);

/* Before execve: the mask and the dispositions that ddprun was started with. Async-signal-safe. */
void signals_give_back(const struct signals *signals);

#endif
