/*
 * metrics.h - --metrics FILE: what a job does now, for a dashboard, in the text format of Prometheus (version 0.0.4,
 * "Exposition formats" in its documentation). docs/insight.md has the figures.
 *
 * The supervisor calls it at each look; the file is replaced every ten seconds, and at the end. One thread.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_METRICS_H
#define DDPRUN_LAUNCHER_REPORT_METRICS_H

#include "launcher/common/rank_view.h"

#include <stdbool.h>

struct metrics;

/* What tells the figures of one job from those of others; all borrowed. */
struct metrics_job {
    const char *name;    /* the label `job`: HOST:PID of ddprun, which stays through restarts */
    const char *program; /* the label `program`: its name without folders */
    unsigned restarts;
    unsigned grace_s; /* --grace */
    int signal;       /* that asked ranks to stop; 0: none did */
};

/* NULL if `path` is; the functions below do nothing with NULL. `program`: its path, or its name. Both are borrowed. */
struct metrics *metrics_new(const char *path, const char *program, unsigned restarts, unsigned grace_s);

/* Begins to write what is known of the ranks now, if it is time to. The first failure is reported, here or later. */
void metrics_look(struct metrics *metrics, const struct rank_view *ranks, int count, uint64_t now_ns);

/* Begins to write how the job ended. `signal`: that asked ranks to stop; 0: none did. */
void metrics_end(struct metrics *metrics, const struct rank_view *ranks, int count, int exit_code, int signal);

/* Waits for what is being written. */
void metrics_free(struct metrics *metrics);

/* ---- for the unit test ---- */

/* What the file holds; malloc'ed. exit_code: -1 while the job runs. unix_s: the time of day. */
char *metrics_compose(const struct metrics_job *job, const struct rank_view *ranks, int count, int exit_code,
                      double unix_s);

#endif
