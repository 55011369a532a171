/*
 * hang.h - does a rank keep the others waiting, and which?
 *
 * A rank hangs only if others wait for it while it makes no hooked call: one that computes for long while no rank
 * waits is left alone. Three ways in which a whole job stands while no rank waits for another are told apart from that:
 * all wait for their own devices, about which the user is only warned; those that are left have ended their programs,
 * but do not exit; or they are idle in their programs (`idle_ns`). Pure: the supervisor brings what it knows of each
 * rank (struct rank_view) and the time; all durations are by its own clock, so ranks may be on any host. Called by the
 * supervisor at each look.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_HANG_H
#define DDPRUN_LAUNCHER_WATCH_HANG_H

#include "launcher/common/error.h"
#include "launcher/common/rank_view.h"

#include <stdint.h>

struct hang_limits {
    uint64_t warning_ns; /* a rank that keeps others, or the end, waiting so long is named; 0: never */
    uint64_t end_ns;     /* and ends the job; 0: never */
};

/* A process that was not seen to continue for so long was stopped, or its launcher is not heard any more: what it said
 * before counts no more. */
#define HANG_SILENCE_NS UINT64_C(2500000000)

struct hang;

/* For `count` ranks, from `now_ns` on. hang_free() releases it. */
struct hang *hang_new(int count, const struct hang_limits *limits, uint64_t now_ns);
void hang_free(struct hang *hang);

enum hang_outcome {
    HANG_NONE,
    HANG_WARNING, /* `error` holds a line for the user; reported once, until the rank continues */
    HANG_END,     /* `error` is the reason why the job ends */
};

/* Judges all ranks at one moment. `error` is set unless the outcome is HANG_NONE; its `rank` is the culprit then, or
 * -1 where all ranks wait and none is behind. */
enum hang_outcome hang_look(struct hang *hang, const struct rank_view *views, uint64_t now_ns, struct error *error);

/* The rank that the others wait for at this moment, however briefly; -1: the others wait for no rank, or no rank is
 * behind. A rank that has failed is not meant. For the report of a rank that has waited in vain. */
int hang_suspect(const struct hang *hang, const struct rank_view *views, uint64_t now_ns);

/* ---- judge.c: how does the job stand, from look to look? ---- */
/* verdict.h and hang.h judge one moment; what takes time to be sure of is decided here: whether a rank that ended
 * well has left the others alone, and whether a failure is the cause or only follows from one that will be known in
 * a moment. Pure: the supervisor brings what it knows of all ranks, and the time by its own clock. Called by the
 * supervisor that judges (supervisor 0, or the only one) at each look, until the job ends. */

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
