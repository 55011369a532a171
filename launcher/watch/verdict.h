/*
 * verdict.h - has the job failed, whose fault is it, and what is the user told?
 *
 * Pure: the supervisor fills in what it knows of each rank, these functions decide. Nothing is asked of the system
 * here.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_VERDICT_H
#define DDPRUN_LAUNCHER_WATCH_VERDICT_H

#include "launcher/common/error.h"
#include "launcher/common/rank_view.h"

/* It ended with exit code 0, but not in the way in which a rank that is done ends. */
bool verdict_is_unfinished(const struct rank_view *rank);

/* It takes part in training now. */
bool verdict_is_training(const struct rank_view *rank);

/*
 * Another rank cannot continue without this one, or has continued without it: the other rank waits for all, has made
 * more steps, or says that another rank's end stopped it. Of one that speaks PMIx itself nothing of the kind is known,
 * so it counts at once.
 */
bool verdict_is_needed(const struct rank_view *ranks, int count, int rank);

/*
 * Looks for a failure. False and untouched `error`: no failure; otherwise true, and `error` holds the message
 * (first line; details may follow on more lines) and the job's exit code. Of several failures the one of a rank that
 * says why counts, then the earliest; ranks that failed because of another one come last, behind those that cannot
 * tell. `error->rank` is that rank.
 */
bool verdict_find(const struct rank_view *ranks, int count, struct error *error);

/* Nothing but ranks that say that another one's end stopped them, or may have: its end may be known in a moment. */
bool verdict_only_follows(const struct rank_view *ranks, int count);

/* The same as verdict_find() once all ranks have ended, when also disagreements in what they did count. */
bool verdict_find_at_end(const struct rank_view *ranks, int count, struct error *error);

/* After an end that was asked for by a signal: a line to `say` if ranks have trained and nothing was averaged. */
void verdict_say_unaveraged(const struct rank_view *ranks, int count, void (*say)(const char *format, ...));

/*
 * After a good end: the closing lines, one message_line() each, to `say`. `summary`: not only warnings. Of a program
 * that did not train: that copies of it ran side by side, which is a warning if any of them used the driver; nothing of
 * one that only evaluated.
 */
void verdict_close(const struct rank_view *ranks, int count, bool summary, void (*say)(const char *format, ...));

#endif
