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

#include <stdbool.h>
#include <stddef.h>

/* It ended with exit code 0, but not in the way in which a rank that is done ends. */
bool verdict_is_unfinished(const struct rank_view *rank);

/* Another rank cannot continue without this one, or has continued without it: it waits for all, as each does that
 * begins, has made more steps, or says that another rank's end stopped it. Without `by_any` only rank 0's waits count,
 * and not its GPU's, which may already have what this rank has sent. */
bool verdict_is_needed(const struct rank_view *ranks, int count, int rank, bool by_any);

/* Looks for a failure. False and untouched `error`: no failure; otherwise true, and `error` holds the message
 * (first line; details may follow on more lines) and the job's exit code. Of several failures the one of a rank that
 * says why counts, then the earliest; ranks that failed because of another one come last, after those that cannot
 * tell. `error->rank` is that rank. */
bool verdict_find(const struct rank_view *ranks, int count, struct error *error);

/* Nothing but ranks that say that another one's end stopped them, or may have: its end may be known in a moment. */
bool verdict_only_follows(const struct rank_view *ranks, int count);

/* By plan: nothing but ranks that have died, and rank 0, which trains on, has not missed them for long. Its program may
 * end in the same way, such as by abort(), once it has saved the model. */
bool verdict_may_be_common(const struct rank_view *ranks, int count);

/* The same as verdict_find() once all ranks have ended, when also disagreements in what they did count. */
bool verdict_find_at_end(const struct rank_view *ranks, int count, struct error *error);

/* ---- for the closing lines, too ---- */

/* That any rank made in the last training. What is known of a rank elsewhere may still be of the one before. */
uint64_t verdict_most_steps(const struct rank_view *ranks, int count);

/* That all ranks have made. */
uint64_t verdict_least_steps(const struct rank_view *ranks, int count);
uint64_t verdict_least_overlapped(const struct rank_view *ranks, int count);

/* Whether a rank has judged a step wrong (interpose/engine/core/judgement.c), and the last step before all of these, as
 * DDP_STEP counts them in this run; 0: not even the first is known to be right. */
bool verdict_last_right(const struct rank_view *ranks, int count, uint64_t *step_p);

/* The last step whose buckets a rank has asked the others for, as rank_wanted_pack(); 0: none. */
uint64_t verdict_buckets_wanted(const struct rank_view *ranks, int count);

/* Adds to the reason for which the job ends from where the training can be continued, if a step was judged wrong.
 * Whether one was. */
bool verdict_add_last_right(const struct rank_view *ranks, int count, struct error *error);

bool verdict_any_became_rank(const struct rank_view *ranks, int count);

/* What it reduces by DDP_REDUCE is its own business: it needs no DDP_STEP. */
bool verdict_reduces_only(const struct rank_view *rank);

/* It has trained, and nothing was averaged; without doubt. */
bool verdict_is_unaveraged(const struct rank_view *rank);

/* Of one that left by _exit(), at whose end the parameters were not looked at: work on gradients is enough. */
bool verdict_left_unaveraged(const struct rank_view *rank);

/* ---- rank_describe.c: what one rank waits for, what it does and where it is, as text ---- */
/* For the lines about ranks that hang (hang.h) and for reports. Pure; the words follow from the view alone. */

/* " after step 12", " before its first step". Into `text`, or another one; so do those below. */
enum { RANK_STEP_BYTES = 48, RANK_WORDS_BYTES = 512 };
const char *rank_describe_step(const struct rank_view *view, char text[RANK_STEP_BYTES]);

/* What the rank waits for, as text that follows "rank 1 ": "waits for bucket 3 of step 8 (12.3 s)". */
const char *rank_describe_wait(const struct rank_view *view, char text[RANK_WORDS_BYTES]);

/* What the rank does itself, a clause of its own: "it has waited in cuStreamSynchronize for its GPU for 73.0 s",
 * "its GPU has not finished the work before bucket 0 of step 5". */
const char *rank_describe_activity(const struct rank_view *view, char text[RANK_WORDS_BYTES]);

/* " (host a, process 12, GPU 3)", as far as it is known. */
const char *rank_describe_place(const struct rank_view *view, char text[RANK_WORDS_BYTES]);

/* In seconds, for a text. */
double rank_seconds(uint64_t ns);

/* Its engine looked at collectives a moment ago, and it has made that step since: the view has two moments. */
bool rank_wait_is_over(const struct rank_view *view);

/* Nothing on the host keeps the rank from continuing: its device has to end its work. */
bool rank_is_on_device(const struct rank_view *view);

/* ---- nonfinite.c: which rank was the first to have an infinite element or NaN in what it was about to send? ---- */
/* Each rank finds its own, and a step later all have it. So the rank of the least step counts, when all have had the
 * time to tell theirs. Pure. */

/* The first, as far as the views say. */
struct nonfinite_first {
    int rank;   /* the lowest of those that have found it in the least step; -1: none has */
    int ranks;  /* how many have found it in that step */
    bool stays; /* parameters are not finite any more */
};
struct nonfinite_first nonfinite_first(const struct rank_view *ranks, int count);

/* That rank, where a finding stays, or the job has `failed`: else, or where there is none, -1. */
int nonfinite_rank(const struct rank_view *ranks, int count, bool failed);

enum { NONFINITE_TEXT_BYTES = 768 };

/* The sentence about nonfinite_rank(), the same wherever a user reads one; false: there is none. */
bool nonfinite_text(const struct rank_view *ranks, int count, bool failed, char text[NONFINITE_TEXT_BYTES]);

/* Called at each look at the ranks: true once, with a line for the user, when a finding stays and each rank that has
 * not ended has looked twice since then, or has not done so for ten seconds. */
bool nonfinite_judge(struct rank_view *ranks, int count, uint64_t now_ns, char text[NONFINITE_TEXT_BYTES]);

/* From nonfinite_begin_looks() on: whether each rank that has not ended, and whose engine looks at all, has looked
 * twice. */
void nonfinite_begin_looks(struct rank_view *ranks, int count);
bool nonfinite_have_looked(struct rank_view *ranks, int count);

/* nonfinite_judge() at the end, when none comes any more; false also where the job ended for it (--stop-on-nan).
 * `failed`: also of a finding that parameters were not looked at after, for that may be why. */
bool nonfinite_last(struct rank_view *ranks, int count, bool failed, char text[NONFINITE_TEXT_BYTES]);

#endif
