/*
 * trial.h - does a step gain by overlap, and what does overlap cost the step's own work?
 *
 * A trial is TRIAL_PAIRS pairs of steps, with the same buckets: of each pair one step launches them beside backward,
 * the other one, a control step, at its boundary. Pairs go one way and the other in turn, so that a machine that
 * becomes slower or faster during the trial favours neither. Of each step every rank has its own work, from the release
 * of the step before to its boundary, and what it waited there. The rank with the most work sets the step's pace, and
 * the one that waits least came last: the greatest work and the least wait of all ranks add up to the step. Differences
 * are taken within pairs; their median counts, which a step that something disturbed does not move.
 *
 * Pure: whole numbers only, the same times give the same result on every rank.
 */
#ifndef DDPRUN_BUCKETING_TRIAL_H
#define DDPRUN_BUCKETING_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRIAL_PAIRS = 8, TRIAL_STEPS = 2 * TRIAL_PAIRS, TRIAL_PAIRS_AT_LEAST = 6 };

/* Times of one step on one rank, in ns; own_ns 0: they are not known. */
struct trial_step {
    int64_t own_ns, wait_ns;
};

/* Medians over the pairs that all ranks know, in ns. */
struct trial_result {
    size_t pairs;
    int64_t slowed_ns;               /* by which collectives beside it lengthen a step's own work, */
    size_t slower;                   /* and in so many pairs they did; in few: noise, which may be negative */
    int64_t overlapped_ns, apart_ns; /* a step with and without overlap */
    int64_t gained_ns;               /* by overlap, of a step; a loss is negative */
    size_t gains, losses;            /* pairs in which the step with overlap was the shorter, or the longer one */
};

/* Whether step number `step` of a trial, below TRIAL_STEPS, launches buckets before its boundary. */
bool trial_overlaps(size_t step);

/* ranks[r] has TRIAL_STEPS steps. False if ranks know fewer than TRIAL_PAIRS_AT_LEAST pairs in common. */
bool trial_judge(const struct trial_step *const *ranks, size_t rank_count, struct trial_result *result);

/* By how much collectives slow a step's own work, in ns; 0: by less than steps differ by, with or without them. */
int64_t trial_slowed(const struct trial_result *result);

/*
 * Whether steps should overlap from here on: as they do, unless the other way was shorter by a fiftieth of the step,
 * and in all pairs but one.
 */
bool trial_prefers_overlap(const struct trial_result *result, bool overlaps);

/* After how many steps another trial costs at most 0.5 % of the time until then; at least 1024. */
uint64_t trial_pause(const struct trial_result *result, bool overlaps);

#endif
