/*
 * planner.h - plans of buckets: learned at boundaries, the same on all ranks; and whether they are launched before the
 * boundary. measure.h has what both are decided from.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_PLAN_PLANNER_H
#define DDPRUN_INTERPOSE_ENGINE_PLAN_PLANNER_H

#include "bucketing/trial.h"
#include "interpose/engine/memory/memory.h"

/* ---- planner.c: plans of buckets ---- */
/* The issuer: what ranks have agreed on begins with a plan that sends everything at the boundary. */
void planner_reset(struct group *group) BY_ISSUER;
/* The issuer, at a boundary, with lock not held: adopts a learned plan when all ranks have one. */
void planner_vote(struct group *group, bool repeats) BY_ISSUER;
/* The issuer: whether a vote may come at one of the group's next boundaries. */
bool planner_votes_within(const struct group *group, uint64_t intervals) BY_ISSUER;
/* Collective: the plan of a step in a capture, in which gradients are complete in `order`, the same on all ranks. */
const struct plan *planner_for_capture(const struct group *group, const size_t *order) BY_ISSUER;
/* Another layout than the plan's, for a trial: fewer buckets, those of PyTorch, or what a forecast would have in place
 * of what a trial has chosen. NULL: there is none. The caller's. */
enum layout { LAYOUT_HALF, LAYOUT_QUARTER, LAYOUT_BY_SIZE, LAYOUT_FORECAST, LAYOUTS };
const struct plan *planner_layout(const struct group *group, enum layout layout) BY_ISSUER;
/* Collective: it is the plan in force from here on, because a trial prefers it. */
void planner_take_layout(struct group *group, enum layout layout, const struct trial_result *result) BY_ISSUER;
/* The issuer: a trial has compared the plan in force with other layouts. From here on trials decide: forecasts only
 * make the plan that they try. */
void planner_compared(struct group *group) BY_ISSUER;
/* For the report: so many buckets are launched early from here on; 0: none, until the next plan. */
void planner_report_buckets(size_t count);

/* ---- trials.c: which way of averaging steps go ---- */
/* The issuer, at a boundary: backward is done on `stream`, which has not been made to wait; after that: it has been. */
void trials_backward_done(const struct group *group, CUstream stream) BY_ISSUER;
void trials_released(const struct group *group, CUstream stream) BY_ISSUER;
/* The issuer, with lock not held, when the interval is closed and voted on: whether the next one launches buckets
 * before its boundary. */
void trials_next_interval(struct group *group, CUstream stream) BY_ISSUER;

/* ---- layouts.c: other layouts that steps of a trial take ---- */
/* Collective, the issuer: takes over plans[0..count) of the group's gradients, 0 < count <= LAYOUTS, while there
 * are no others. */
void layouts_begin(struct group *group, const struct plan *const *plans, size_t count) BY_ISSUER;
/* The issuer, before an interval of the group has sent a bucket: it takes this one of them; NULL: the plan in force.
 * Not if they are of another group. */
void layouts_wear(const struct group *group, const struct plan *plan) BY_ISSUER;
/* The issuer, there too: the plan in force again, and frees the others, if there are any of this group. */
void layouts_end(const struct group *group) BY_ISSUER;

/* ---- plans.c ---- */
/* The issuer: ends the job, naming the first difference, unless all ranks have this plan. */
void plans_compare(const struct group *group, const struct plan *plan) BY_ISSUER;

/* ---- deferred.c: gradients that wait for DDP_STEP ---- */
/* The issuer, before a vote: ranks agree on what is deferred, and why. True if the plan was made for others. */
bool deferred_agree(const struct group *group) BY_ISSUER;
/* Deferred gradients go last. */
void deferred_order(const struct group *group, size_t *order) BY_ISSUER;

#endif
