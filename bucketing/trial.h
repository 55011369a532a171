/*
 * trial.h - which way of averaging makes a step shortest, and what does overlap cost the step's own work?
 *
 * A trial is a number of rounds. In each round steps go each of some ways once: way 0 as steps go now, the others with
 * other buckets, or without overlap (or with it, where there is none now). The order of the ways differs from
 * round to round, so that a machine that becomes slower or faster during the trial favours none, nor does a program
 * that does more in each second or fourth step. Of each step every rank has its own work, from the release of the step
 * before to its boundary, and what it waited there. The rank with the most work sets the step's pace, and the one that
 * waits least came last: the greatest work and the least wait of all ranks add up to the step. Differences are taken
 * within rounds; their median counts, which a step that something disturbed does not move.
 *
 * Pure: whole numbers only, the same times give the same result on every rank.
 */
#ifndef DDPRUN_BUCKETING_TRIAL_H
#define DDPRUN_BUCKETING_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRIAL_WAYS_AT_MOST = 4,
    TRIAL_ROUNDS = 8,             /* of a first trial, */
    TRIAL_ROUNDS_CONFIRMING = 16, /* and of one that confirms its result, with two ways */
    TRIAL_STEPS_AT_MOST = 32,
};

struct trial_shape {
    size_t ways, rounds; /* 2 to TRIAL_WAYS_AT_MOST; the product is at most TRIAL_STEPS_AT_MOST */
};

/* Times of one step on one rank, in ns; own_ns 0: they are not known. */
struct trial_step {
    int64_t own_ns, wait_ns;
};

/* One of the other ways beside way 0: medians over the rounds of which all ranks know both steps, in ns. */
struct trial_result {
    size_t rounds;
    int64_t present_ns, other_ns; /* a step of either way */
    int64_t other_wait_ns;        /* what of the other one is exposed */
    int64_t gained_ns;            /* by which the other way's step is shorter; negative: longer */
    size_t gains;                 /* rounds in which it was shorter */
    int64_t work_ns;              /* by which its own work is longer; negative: shorter */
    size_t more, less;            /* rounds in which its own work was longer, and shorter */
};

/* Sorts the values; of an even number, the mean of the two in the middle. */
int64_t trial_median(int64_t *values, size_t count);

/* Which way step number `step` of a trial goes. */
size_t trial_way(const struct trial_shape *shape, size_t step);

/* ranks[r] has ways * rounds steps. False, and a result of zeros, if ranks know fewer than three quarters of the rounds
 * in common. */
bool trial_compare(const struct trial_step *const *ranks, size_t rank_count, const struct trial_shape *shape,
                   size_t way, struct trial_result *result);

/*
 * By how much collectives slow a step's own work, in ns, where one of the two ways overlaps and the other does not; 0:
 * by less than steps differ by, with or without them.
 */
int64_t trial_slowed(const struct trial_result *result, bool present_overlaps);

/* Whether the other way is the better one: by a hundredth of the step, and in three quarters of the rounds. */
bool trial_prefers(const struct trial_result *result);

/*
 * After how many steps the next trial may come: `others` steps of the last one went another way than way 0, and all of
 * them together took extra_ns longer. So that these are at most 0.5 % of the steps, and cost at most 0.5 % of the time.
 */
uint64_t trial_pause(size_t others, int64_t extra_ns, int64_t step_ns);

#endif
