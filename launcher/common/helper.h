/*
 * helper.h - work that may hang in the system, such as a write into a FIFO or to a file server that does not answer,
 * done by a process of its own: ddprun waits for it no longer than a limit, and takes signals meanwhile.
 *
 * A helper is a fork of ddprun: it has all memory as it was, its standard descriptors, those inherited and the target
 * of messages, but no other descriptor of ddprun's own. One thread, that of the supervisor.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_HELPER_H
#define DDPRUN_LAUNCHER_COMMON_HELPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* For so long a helper may show no progress: it neither calls helper_goes_on(), nor runs, nor waits for a processor, as
 * it does on a busy host. */
enum { HELPER_LIMIT_S = 2 };

struct helper {
    pid_t pid;         /* 0: there is none */
    int fd;            /* what the helper says; -1: it could not be begun, because of */
    int cause;         /* this errno */
    uint64_t until_ns; /* 0: no limit */
    /* How long it has run, and has waited for a processor, when it was last looked at. */
    uint64_t run_ns, queued_ns;
};

/* What a helper does; 0 or an errno. */
typedef int (*helper_work)(const void *data);

/* Begins work(data) in a new process. `helper` is none before. */
void helper_begin(struct helper *helper, helper_work work, const void *data);

/*
 * Whether it is over; false also of none. *cause is what work() returned; ETIMEDOUT: it made no progress for
 * HELPER_LIMIT_S, EINTR: a signal asks for the end; both have been killed. Another errno: it could not be begun, or
 * died. `waits`: until then.
 */
bool helper_is_over(struct helper *helper, bool waits, int *cause);

/* Begins, waits, and returns the cause. */
int helper_do(helper_work work, const void *data);

/* Takes the status of a child that was killed; NULL: of no interest. False: none within 0.1 s, as of a process that
 * hangs in the system, and does not end even then. */
bool helper_reap(pid_t pid, int *status);

/* From now on no helper has more than the limit: the end was asked for. */
void helper_hurry(void);

/* ---- in the helper ---- */

/* It makes progress: the limit begins anew. */
void helper_goes_on(void);

/* What it does may take long, and ends only with the work, or by a signal that asks for the end. One that is stopped
 * has the limit again. */
void helper_takes_time(void);

#endif
