/*
 * pace.h - how fast steps are, and what they wait for at their end: the network, or another rank.
 *
 * One set of figures for all that ddprun says of a job: means over the steps after start-up that all ranks have timed,
 * without the control steps of trials (those only say who comes last). A rank's record has its last RANK_EXPOSED_STEPS
 * boundaries; pace_note() adds them up before they are overwritten, and where steps are quicker than its looks, some of
 * them. common/waiting.h says what is exposed and what is waiting. Any thread.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_PACE_H
#define DDPRUN_LAUNCHER_WATCH_PACE_H

#include "launcher/common/rank_view.h"
#include "launcher/common/waiting.h"

/* The gradient noise scale (engine/measure/noise.c). In items where DDP_SHARD says how many a step has, else in
 * batches, of which each rank has one in a step. */
struct noise_scale {
    double scale;  /* 0: not known, or not said: shares of unlike size, ranks on the same data */
    double spread; /* to each side, as a part of it */
    double batch;  /* of this run */
    bool in_items;
};

struct pace {
    double step_ns;        /* mean since the end of start-up (training_step); 0: not known */
    bool is_timed;         /* on the device; else by rank 0's host, of all steps */
    uint64_t first, last;  /* the steps that all figures are of, or lie between; 0: none are known */
    double steps_per_s;    /* the same; 0: not known */
    double items_per_s;    /* of DDP_SHARD, over all ranks; 0: not known */
    struct pace_sums sums; /* boundaries that what follows is of; none: it is not known */
    uint64_t exposed_ns;   /* the network's part */
    uint64_t waiting_ns;   /* for another rank, on top of that; UINT64_MAX: not known */
    uint64_t slowed_ns; /* how much collectives lengthen a step's own work; UINT64_MAX: not known, or steps have become
                           much shorter than in the last trial */
    struct noise_scale noise;
    struct waiting waited; /* the same in nanoseconds, who the straggler is, and whether that is worth a word */
};

/* Where 20 steps take less than a second, names a straggler only if pace_note() has found it in three of four looks, or
 * has hardly looked. `waits`: NULL, or room for what each rank waited. */
struct pace pace_of(const struct rank_view *ranks, int count, struct rank_waits *waits);

/* The sentences about it, the same wherever a user reads them: "the critical batch size (gradient noise scale) is
 * about 640 items (480 to 800). This run has 512, so a larger batch saves steps". */
enum { NOISE_TEXT_BYTES = 200 };
const char *noise_scale_text(const struct noise_scale *noise, char text[NOISE_TEXT_BYTES]);

/* Remembers in the views what is new in the ranks' records, and whether there is a straggler now: in a second of quick
 * steps any rank may be the last, on a machine with much else to do. Called a few times a second; which rank was the
 * straggler 32 looks ago, it forgets. */
void pace_note(struct rank_view *ranks, int count);

#endif
