/*
 * sketch.h - memory in a thousand numbers, from which norms of differences can be estimated. Pure.
 *
 * Each of SKETCH_COUNTERS consecutive blocks of elements becomes one sum with random signs. The sketch is linear, and
 * the norm of a sketch is an unbiased estimate of the norm of what it was made of, for large ones within some 5 %
 * (Alon, Matias, Szegedy: The space complexity of approximating the frequency moments, 1996). Memory of up to
 * SKETCH_COUNTERS elements is kept as it is, but for signs.
 */
#ifndef DDPRUN_TOOLS_NEAR_SKETCH_H
#define DDPRUN_TOOLS_NEAR_SKETCH_H

#include "tools/near/norms.h"

enum { SKETCH_COUNTERS = 1024 };

struct sketch {
    uint64_t count, added; /* elements: all, and added so far */
    uint64_t unbounded;    /* infinite or NaN: in no counter */
    double counters[SKETCH_COUNTERS];
};

/* The next `count` elements, of a type of element.h; of a new sketch only .count is set. */
void sketch_add(struct sketch *sketch, int type, const void *data, size_t count);

/* Difference, reference, own, and the product of the last two, as estimated; nothing else. */
struct check_norms sketch_compare(const struct sketch *own, const struct sketch *reference);

/* The same of what has changed since the sketches before. */
struct check_norms sketch_compare_changes(const struct sketch *own_before, const struct sketch *own,
                                          const struct sketch *before, const struct sketch *reference);

/*
 * How much of `change` is left in own - reference: 1 where all of it is still there, near 0 where it was overwritten.
 * NaN for a change of nothing.
 */
double sketch_retained(const struct sketch *own, const struct sketch *reference, const struct sketch *change);

#endif
