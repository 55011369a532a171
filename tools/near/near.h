/*
 * near.h - the tools' one answer to "equal?": a distance, held against what the same computation makes of itself. Pure.
 *
 * distance   of two lists (numbers.h), of two tensors block by block (norms.h), of what an update has changed
 *            (change.h), of memory in a thousand numbers (sketch.h), of two runs of a program (here)
 * floor      how far the same computation is from itself when it runs again; 0: its bits repeat
 * noise      what counts as equal above that: a multiple of the floor, and at least what rounding makes, as two runs
 *            may agree by chance
 * verdict    equal: the same bits, or a distance of at most the noise
 */
#ifndef DDPRUN_TOOLS_NEAR_NEAR_H
#define DDPRUN_TOOLS_NEAR_NEAR_H

#include "tools/near/element.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

/* Two runs may be so many times as far apart as those that the floor is of. */
#define NEAR_NOISE_FACTOR 8

/* Of the largest number: noise above it hides mistakes. */
#define NEAR_NOISE_AT_MOST 1e-4

/* ---- single numbers ---- */

/* A number is another one, computed once and rounded otherwise, within so much of it. */
#define NEAR_NUMBER 1e-5

/* What differs by noise alone, where numbers of up to `largest` have differed by at most `floor`: at least so many
 * units in the last place of a float. */
static inline double
near_noise(double floor, double largest)
{
    return NEAR_NOISE_FACTOR * fmax(floor, FLT_EPSILON * largest);
}

/* Whether two words are the same bits, or floats that differ by at most `noise`; 0: only bits count. */
static inline bool
near_are_words(uint32_t a, uint32_t b, float noise)
{
    return a == b || (noise > 0 && fabsf(element_from_bits(a) - element_from_bits(b)) <= noise);
}

/* ---- tensors ---- */

/* The relative difference of norms that counts as equal in a type of element.h. */
double near_tolerance(int type);

/* ---- runs ---- */

/* How far a tensor is from what another run had, after a step that began alike, beside what moves in it: the sum over
 * its elements, and the worst of them. Some units in the last place are nothing. */
struct near_apart {
    double sum;     /* over what the tensor has moved in all; before the first step, over what it holds */
    double element; /* over what the element has moved, and the mean of all */
};

/* Of a tensor's bytes in a run, in another one, and in that one as the step began; NULL: before the first step. */
struct near_apart near_find_apart(int type, uint64_t bytes, const char *now, const char *other, const char *before);

/* The larger of each. */
struct near_apart near_larger(struct near_apart one, struct near_apart other);

/* Whether a run is as near as the runs that the floor is of, or as rounding alone makes it. */
bool near_is_noise(struct near_apart apart, struct near_apart floor);

/* Whether a mistake would be larger than what near_is_noise() accepts. */
bool near_shows_mistakes(struct near_apart floor);

#endif
