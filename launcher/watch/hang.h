/*
 * hang.h - does a rank keep the others waiting, and which?
 *
 * A rank hangs only if others wait for it while it makes no hooked call: one that computes for long while no rank
 * waits is left alone. Two ways in which a whole job stands while no rank waits for another are told apart from that:
 * all wait for their own devices, about which the user is only warned; and those that are left have ended their
 * programs, but do not exit. Pure: the supervisor brings what it knows of each rank (struct rank_view) and the time;
 * all durations are by its own clock, so ranks may be on any host. Called by the supervisor at each look.
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

/*
 * Judges all ranks at one moment. `error` is set unless the outcome is HANG_NONE; its `rank` is the culprit then, or
 * -1 where all ranks wait and none is behind.
 */
enum hang_outcome hang_look(struct hang *hang, const struct rank_view *views, uint64_t now_ns, struct error *error);

/*
 * The rank that the others wait for at this moment, however briefly; -1: the others wait for no rank, or no rank is
 * behind. A rank that has failed is not meant. For the report of a rank that has waited in vain.
 */
int hang_suspect(const struct hang *hang, const struct rank_view *views, uint64_t now_ns);

#endif
