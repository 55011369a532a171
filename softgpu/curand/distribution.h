/*
 * distribution.h - numbers of a distribution from a generator's states. Called by generator.c, on a stream's thread or,
 * for host generators, on the program's. Pure functions.
 *
 * Uniform numbers lie in (0, 1], as cuRAND's. Normal numbers come in pairs by the transform of Box and Muller.
 */
#ifndef SOFTGPU_CURAND_DISTRIBUTION_H
#define SOFTGPU_CURAND_DISTRIBUTION_H

#include "curand/states.h"

#include <stdbool.h>

enum distribution_kind {
    DISTRIBUTION_BITS, /* uint32_t */
    DISTRIBUTION_UNIFORM,
    DISTRIBUTION_UNIFORM_DOUBLE,
    DISTRIBUTION_NORMAL,
    DISTRIBUTION_NORMAL_DOUBLE,
    DISTRIBUTION_LOG_NORMAL,
    DISTRIBUTION_LOG_NORMAL_DOUBLE,
};

/* Which numbers are wanted; mean and deviation are those of the (logarithm's) normal distribution. */
struct distribution {
    enum distribution_kind kind;
    double mean, deviation;
};

/* Whether its numbers come in pairs. */
bool distribution_is_paired(enum distribution_kind kind);

/* How many numbers of the sequence one number of the distribution takes. */
size_t distribution_cost(enum distribution_kind kind);

/* output[count] from what is drawn next; an even count where numbers come in pairs. */
void distribution_fill(const struct distribution *distribution, struct draw *draw, void *output, size_t count);

#endif
