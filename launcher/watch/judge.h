/*
 * judge.h - how does the job stand, from look to look?
 *
 * verdict.h and hang.h judge one moment; what takes time to be sure of is decided here: whether a rank that ended well
 * has left the others alone, and whether a failure is the cause or only follows from one that will be known in a
 * moment. Pure: the supervisor brings what it knows of all ranks, and the time by its own clock. Called by the
 * supervisor that judges (supervisor 0, or the only one) at each look, until the job ends.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_JUDGE_H
#define DDPRUN_LAUNCHER_WATCH_JUDGE_H

#include "launcher/watch/hang.h"

struct judge;

/* For `count` ranks, from `now_ns` on. judge_free() releases it. */
struct judge *judge_new(int count, const struct hang_limits *limits, uint64_t now_ns);
void judge_free(struct judge *judge);

enum judgement {
    JUDGED_GOES_ON,
    JUDGED_WARNING,  /* the job continues; `error` holds a line for the user, and the rank of which it speaks */
    JUDGED_IN_DOUBT, /* a rank has failed; why, will be known in a moment */
    JUDGED_OVER,     /* all ranks have ended well */
    JUDGED_FAILED,   /* `error` holds the reason */
};

/* By the ends of ranks. Sets `left_early` in `views`. Never a warning. */
enum judgement judge_ends(struct judge *judge, struct rank_view *views, uint64_t now_ns, struct error *error);

/* By what ranks do that have not ended, which counts where judge_ends() says that the job continues: JUDGED_GOES_ON,
 * JUDGED_WARNING or JUDGED_FAILED. */
enum judgement judge_running(struct judge *judge, const struct rank_view *views, uint64_t now_ns, struct error *error);

/* hang_suspect() of this moment: a rank that may be why, besides the one of whom the reason speaks. */
int judge_suspect(const struct judge *judge, const struct rank_view *views, uint64_t now_ns);

#endif
