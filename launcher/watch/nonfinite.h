/*
 * nonfinite.h - which rank was the first to have an infinite element or NaN in what it was about to send?
 *
 * Each rank finds its own, and a step later all have it. So the rank of the least step counts, when all have had the
 * time to tell theirs. Pure.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_NONFINITE_H
#define DDPRUN_LAUNCHER_WATCH_NONFINITE_H

#include "launcher/common/rank_view.h"

/* The first, as far as the views say. */
struct nonfinite_first {
    int rank;   /* the lowest of those that have found it in the least step; -1: none has */
    int ranks;  /* how many have found it in that step */
    bool stays; /* parameters are not finite any more */
};
struct nonfinite_first nonfinite_first(const struct rank_view *ranks, int count);

/*
 * Called at each look at the ranks: true once, with a line for the user, when a finding stays and each rank that has
 * not ended has looked twice since then, or has not done so for ten seconds.
 */
enum { NONFINITE_TEXT_BYTES = 768 };
bool nonfinite_look(struct rank_view *ranks, int count, uint64_t now_ns, char text[NONFINITE_TEXT_BYTES]);

/* From nonfinite_begin_looks() on: whether each rank that has not ended, and whose engine looks at all, has looked
 * twice. */
void nonfinite_begin_looks(struct rank_view *ranks, int count);
bool nonfinite_have_looked(struct rank_view *ranks, int count);

/* nonfinite_look() at the end, when none comes any more. `failed`: also of a finding that parameters were not looked at
 * after, for that may be why. */
bool nonfinite_last(struct rank_view *ranks, int count, bool failed, char text[NONFINITE_TEXT_BYTES]);

#endif
