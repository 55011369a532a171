/*
 * measured.h - the plan that lets the step end first, from measured ready times and the measured cost of an all-reduce.
 *
 * Uses partition.h for what is best if everything comes as measured, and then takes, of plans that are as good as that
 * also when gradients are somewhat earlier or later than measured, the one with the fewest buckets.
 *
 * Pure: whole numbers only, the same inputs give the same plan on every rank.
 */
#ifndef DDPRUN_BUCKETING_MEASURED_H
#define DDPRUN_BUCKETING_MEASURED_H

#include "bucketing/cost.h"
#include "bucketing/plan.h"

#include <stdbool.h>

/* What a plan promises, if everything comes as measured; on the clock of the ready times. */
struct plan_forecast {
    int64_t end_ns;   /* the last all-reduce ends */
    int64_t bound_ns; /* no schedule at all ends before */
};

/*
 * Builds the plan for gradients[0..count) that are ready at ready_ns[] (from 0 up, any origin that all share). Of
 * gradients that are ready at the same time the one that comes first in `order` (a permutation) leaves first. `cost`
 * must not be empty. Returns NULL when memory runs out, `order` is no permutation, or times or sizes are beyond what
 * partition.h takes; *forecast_p is set with a plan only.
 */
const struct plan *plan_build_measured(uint32_t version, const struct plan_gradient *gradients, const int64_t *ready_ns,
                                       const size_t *order, size_t count, const struct cost *cost,
                                       struct plan_forecast *forecast_p);

/*
 * What a plan that is in force promises for these ready times, whatever it was built from. False when memory runs out
 * or times or sizes are beyond what partition.h takes.
 */
bool plan_forecast(const struct plan *plan, const int64_t *ready_ns, const struct cost *cost,
                   struct plan_forecast *forecast_p) __attribute__((warn_unused_result));

#endif
