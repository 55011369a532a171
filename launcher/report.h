/*
 * report.h - what is known of the ranks when one of them has failed or hangs, in lines for the user.
 *
 * Lines are indented and end with a newline; they stand below the one line that says what happened. Called by the
 * supervisor, once or a few times in a job, before it ends anything: what a report looks at must still be there.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_H
#define DDPRUN_LAUNCHER_REPORT_H

#include "launcher/verdict.h"

#include <stdbool.h>
#include <stddef.h>

struct rank_status;

/* One rank, where it lives. All borrowed. */
struct report_subject {
    int rank;
    const struct rank_view *view;
    struct rank_status *status; /* its record, with the flight recorder behind it */
    bool stacks;                /* its threads' stacks too, if it lives: takes up to three seconds */
};

enum { REPORT_BYTES = 32 << 10 }; /* room enough for one rank */

/*
 * Where the rank is, what it did last, what it waits for, its last events and its threads' stacks, into text[bytes];
 * from things of this host only. Cut after a whole line if there is no room.
 */
void report_rank(const struct report_subject *subject, char *text, size_t bytes);

/* What all ranks but `but` and `nor` do, a line each, of many ranks the first 16: from their views, so they may be
 * anywhere. */
void report_others(const struct rank_view *views, int count, int but, int nor, char *text, size_t bytes);

/*
 * Both of these, of ranks of this launcher; free() releases it. `page`: the status records. `rank`: the one that failed
 * or hangs, -1: nobody; `suspect`: another one that may be why, -1: nobody. NULL if the line above says all that is
 * known: the rank has not begun to train, or trains alone.
 */
char *report_make(const struct rank_view *views, int count, int rank, int suspect, void *page);

/* Writes a report to stderr; nothing if it is NULL. */
void report_print(const char *text);

/* Whether a report of the rank says more than the line above it: it has begun to train, with others. */
bool report_is_worth(const struct rank_view *views, int count, int rank);

#endif
