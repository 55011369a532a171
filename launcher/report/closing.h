/*
 * closing.h - the closing lines: what a job that trained has done, in six lines at most; with -v what else is known.
 *
 *     wall time 62.4 s, 19.8 steps/s, 1267 items/s; effective batch: 64 items for each backward pass (DDP_SHARD)
 *     2 ranks, 1200 steps, 1197 of them overlapped with backward; 6 gradients, 68.4 KiB per step, in 3 buckets
 *     exposed communication: 1.2 ms per step (median of 64 steps); lower bound for any bucket layout: 0.9 ms
 *     waiting for rank 1: 58 ms per step; rank 1 was the last in 64 of 64 steps
 *     annotated parameters bitwise identical on all ranks (...)
 *
 * Called by the supervisor that judges, once, after a good end or one that a signal asked for.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_CLOSING_H
#define DDPRUN_LAUNCHER_REPORT_CLOSING_H

#include "launcher/common/rank_view.h"

struct closing {
    const struct rank_view *ranks; /* [rank_count] */
    int rank_count;
    double seconds;    /* from the first rank's start to the end */
    unsigned restarts; /* of --max-restarts, before this attempt */
    bool summary;      /* not only warnings */
    bool verbose;      /* also what is left out of six lines */
    bool interrupted;  /* a signal asked for the end: how far it came is said, and nothing if there was no step */
};

void closing_say(const struct closing *closing, void (*say)(const char *format, ...));

#endif
