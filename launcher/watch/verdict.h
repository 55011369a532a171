/*
 * verdict.h - has the job failed, and whose fault is it?
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

/*
 * Another rank cannot continue without this one, or has continued without it: the other rank waits for all, as each
 * does that begins, has made more steps, or says that another rank's end stopped it.
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

/* ---- for the closing lines, too ---- */

/* That any rank made in the last training. What is known of a rank elsewhere may still be of the one before. */
uint64_t verdict_most_steps(const struct rank_view *ranks, int count);

/* That all ranks have made. */
uint64_t verdict_least_steps(const struct rank_view *ranks, int count);

bool verdict_any_became_rank(const struct rank_view *ranks, int count);

/* What it reduces by DDP_REDUCE is its own business: it needs no DDP_STEP. */
bool verdict_reduces_only(const struct rank_view *rank);

/* It has trained, and nothing was averaged; without doubt. */
bool verdict_is_unaveraged(const struct rank_view *rank);

/* Of one that left by _exit(), at whose end the parameters were not looked at: work on gradients is enough. */
bool verdict_left_unaveraged(const struct rank_view *rank);

#endif
