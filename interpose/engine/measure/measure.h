/*
 * measure.h - what the engine measures so that plans of buckets fit the machine and the program.
 *
 * first_sum.c: whether the first all-reduce is right. all_reduce_cost.c: what an all-reduce costs, once, at the first
 * agreement on annotations. connect.c: the first all-reduce of each size. measure.c: when gradients become ready, and
 * how long the trainer's stream waited at boundaries: by events on the device that are read when they are complete.
 * noise.c: what a larger batch is worth. After the start the host waits where a plan takes effect, and for nothing
 * else.
 *
 * Used by planner.c (which makes plans of it), boundary.c and touches.c (where things happen), trace.c.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_MEASURE_MEASURE_H
#define DDPRUN_INTERPOSE_ENGINE_MEASURE_MEASURE_H

#include "bucketing/cost.h"
#include "bucketing/measured.h"
#include "bucketing/trial.h"
#include "interpose/engine/memory/memory.h"

/* ---- first_sum.c ---- */

/* Collective, at the first agreement: ends the job if an all-reduce of known numbers gives other sums. Takes the
 * issuer's role. */
void first_sum_look(void);

/* ---- all_reduce_cost.c ---- */

/*
 * The cost of an all-reduce, the same on all ranks; empty while it is not known, and for good where buckets are of a
 * fixed size. Constant once planner.c may ask.
 */
const struct cost *all_reduce_cost(void);

/*
 * Collective, at the first agreement: measures the cost, unless there is nothing to gain from it. `gradient_bytes` is
 * the size of all gradients. Takes the issuer's role.
 */
void all_reduce_cost_find(uint64_t gradient_bytes);

/* ---- connect.c ---- */

/* The issuer; collective: buckets of the plan's sizes and types wait on the host for no other rank, from now on. */
void connect_sizes(const struct plan *plan) BY_ISSUER;

/* ---- measure.c ---- */

enum { MEASURED_INTERVALS = 5 }; /* as many are sampled before times are used */

/* The issuer: what was measured of the group is no more; its gradients or their order have changed. */
void measure_forget(const struct group *group) BY_ISSUER;

/* With lock held: the event to record on the stream that has just made the gradient ready; NULL: none. */
CUevent measure_ready_event(const struct group *group, size_t gradient) WITH_LOCK;

/* The issuer, at a boundary: the group's backward is done on `stream`, which has not been made to wait. The event that
 * is recorded there, for the next WAITS_IN_FLIGHT boundaries; NULL: this boundary is not looked at. */
CUevent measure_backward_done(const struct group *group, CUstream stream) BY_ISSUER;

/* The issuer, after that: `stream` has been made to wait for the reduction. The event, in the same way. */
CUevent measure_released(const struct group *group, CUstream stream) BY_ISSUER;

/* The issuer: a new interval of the group begins. */
void measure_next_interval(const struct group *group, CUstream stream) BY_ISSUER;

/* The issuer: the next intervals are not sampled, as long as group->tried; nor counts the one that is. */
void measure_pause(const struct group *group) BY_ISSUER;
/* The issuer: a review comes; sample again. */
void measure_wanted(const struct group *group) BY_ISSUER;

/*
 * The issuer: when the gradients were ready on this rank, in nanoseconds since the boundary before, and when backward
 * was done (in ns[gradient_count]): medians of several intervals. False while there are too few.
 */
bool measure_times(const struct group *group, int64_t *ns) BY_ISSUER;

/* The issuer: the times have been used; a review wants new ones. */
void measure_times_used(const struct group *group) BY_ISSUER;

/* The issuer: what the group's plan promises: waiting at the boundary, and its lower bound; negative: not known. */
void measure_promise(const struct group *group, int64_t exposed_ns, int64_t bound_ns) BY_ISSUER;
/* The same, to look at. */
void measure_promised(const struct group *group, int64_t *exposed_ns_p, int64_t *bound_ns_p);
/* The issuer: steps go another way from here on; what was promised, and times of buckets and boundaries, are over. */
void measure_way_changed(const struct group *group) BY_ISSUER;

/* ---- noise.c ---- */

/* The issuer: a new interval of the group begins, the same on all ranks. */
void noise_next_interval(const struct group *group) BY_ISSUER;
/* The issuer, at a boundary, when all buckets are sent; `is_weighted`: DDP_WEIGHT was called. */
void noise_boundary(bool is_weighted) BY_ISSUER;
/* A watcher's. */
void noise_bucket_begins(const struct group *group, size_t bucket, bool early) BY_ISSUER;

/* ---- commit_wait.c ---- */

/* In any thread, after a call for which it has waited, or before one by which a result leaves the device. */
void commit_wait_close(void);
/* A watcher's. */
void commit_wait_operation_begins(const struct operation *operation);
void commit_wait_operation_ends(const struct operation *operation, bool runs, bool touches);
/* The issuer: DDP_STEP has waited so long for the verdict. */
void commit_wait_waited(int64_t ns) BY_ISSUER;
/* The issuer, at the end of DDP_STEP; `waits`: it has waited for the verdict, and for nothing else. */
void commit_wait_next_interval(CUstream stream, bool waits) BY_ISSUER;

/* ---- trial_times.c: steps of a trial, one at a time; times are read when all events are complete ---- */

/* The issuer: the first step of a trial begins on `stream`. */
void trial_times_begin(CUstream stream) BY_ISSUER;
/* The issuer, at the boundary of step `step`: its own work is done; after that: its stream has been made to wait. */
void trial_times_done(size_t step, CUstream stream) BY_ISSUER;
void trial_times_released(size_t step, CUstream stream) BY_ISSUER;
/* The issuer: steps[TRIAL_STEPS_AT_MOST]. False if events of some are not complete yet. */
bool trial_times_read(struct trial_step *steps) BY_ISSUER;

#endif
