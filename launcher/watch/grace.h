/*
 * grace.h - ranks that a signal has asked to stop: which of them still work, which only wait for a rank that has left,
 * and the lines about those that ddprun ends.
 *
 * --grace is the time for ranks that compute or save. A rank that waits for a rank that has left would wait in vain,
 * and is ended at once. Pure: the supervisor that judges brings what it knows of each rank, at each look from the
 * signal to the end of the job, ends ranks and prints lines. One thread.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_GRACE_H
#define DDPRUN_LAUNCHER_WATCH_GRACE_H

#include "launcher/common/rank_view.h"

#include <stdbool.h>
#include <stdint.h>

/* What a rank does after the signal. */
enum grace_state {
    GRACE_LEFT,   /* nothing of it is left to wait for: it has ended, or is at the end of its program */
    GRACE_WORKS,  /* it computes, saves, or waits for a rank that may still come */
    GRACE_WAITS,  /* it waits for a rank that has left; outside of a signal handler */
    GRACE_FAILED, /* its engine has stopped it */
};

/* Of one rank at this moment. *left_p: the rank that it waits for in vain (GRACE_WAITS), or that may be why it failed
 * (GRACE_FAILED); else -1. */
enum grace_state grace_state_of(const struct rank_view *ranks, int count, int rank, int *left_p);

enum { GRACE_TEXT_BYTES = 1536, GRACE_LINES_AT_MOST = 16 };

/* What was said so far. grace_begin() sets it up; grace_free() releases it. */
struct grace {
    int signal;      /* that asked ranks to stop */
    unsigned s;      /* the time that they have */
    int count;       /* of ranks */
    bool *is_told;   /* [count]: its end was told, or is not to be */
    int lines;       /* about ranks that were killed at the end of the time */
    bool has_parted; /* that ranks stopped at different steps was said */
};

void grace_begin(struct grace *grace, int signal, unsigned seconds, int count);
void grace_free(struct grace *grace);

/*
 * Looks for ranks to be ended before their time is over: sets ends[count], and returns whether there are any. `text` is
 * then one line about them. A rank that is `killed` already is not counted again.
 */
bool grace_find_ends(struct grace *grace, const struct rank_view *ranks, bool *ends, char text[GRACE_TEXT_BYTES]);

/* The next line about a rank that was killed when the time was over (RANK_KILLED_LATE) and has ended; false: there is
 * no other one. GRACE_LINES_AT_MOST of them, then one with the number of the others. */
bool grace_next_late(struct grace *grace, const struct rank_view *ranks, char text[GRACE_TEXT_BYTES]);

/* "ranks stopped at different steps after SIGUSR1 (...)": the reason of a job's failure, where a signal has asked ranks
 * to stop and they did not stop together. False: they did, as far as can be seen. */
bool grace_find_parting(const struct rank_view *ranks, int count, int signal, char text[GRACE_TEXT_BYTES]);

#endif
