/*
 * pace.h - how fast steps are, and what they wait for at their end: the network, or another rank.
 *
 * Of the last RANK_EXPOSED_STEPS boundaries that all ranks have looked at; common/waiting.h says what is exposed and
 * what is waiting. Control steps of trials say who comes last, and nothing else. Pure; any thread.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_PACE_H
#define DDPRUN_LAUNCHER_WATCH_PACE_H

#include "launcher/common/rank_view.h"
#include "launcher/common/waiting.h"

struct pace {
    double steps_per_s; /* mean from the end of start-up (training_step) to the last boundary; 0: not known */
    double items_per_s; /* of DDP_SHARD, over all ranks; 0: not known */
    uint64_t count;     /* boundaries, without control steps, that what follows is of; 0: it is not known */
    uint64_t first_step, last_step; /* of them; 0: medians of each rank are all that is known */
    uint64_t exposed_ns,
        bound_ns;          /* the network's part, and its lower bound, which is no more; UINT64_MAX: not known */
    uint64_t waiting_ns;   /* for another rank, on top of that; UINT64_MAX: not known */
    bool waits;            /* that is worth a word: there is a straggler, or it is 1 ms and a tenth of a step */
    int straggler;         /* the rank that they waited for; -1: none */
    struct waiting waited; /* the same in nanoseconds, for its sentence (waiting_text()) */
};

/* Where 20 steps take less than a second, names a straggler only if pace_note() has found it in three of four looks, or
 * has hardly looked. */
struct pace pace_of(const struct rank_view *ranks, int count);

/*
 * Remembers in the views whether there is a straggler now: in a second of quick steps any rank may be the last, on a
 * machine with much else to do. Called a few times a second; it forgets what was 32 looks ago.
 */
void pace_note(struct rank_view *ranks, int count);

/* The boundary in one of RANK_EXPOSED_STEPS places, and who came last: no rank, if not all have looked at the same one.
 * And what a rank waited there, in nanoseconds. */
struct last_rank pace_last(const struct rank_view *ranks, int count, int place);
double pace_wait(const struct rank_view *rank, int place);

#endif
