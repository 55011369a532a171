/*
 * norms.h - how far two tensors are from each other, as a whole and block by block. Pure.
 *
 * The difference of a tensor of millions of elements hides two rows that were left out; so its elements are cut into
 * NORM_BLOCKS blocks, and the worst block counts too.
 */
#ifndef DDPRUN_TOOLS_CHECK_FORMAT_NORMS_H
#define DDPRUN_TOOLS_CHECK_FORMAT_NORMS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { NORM_BLOCKS = 256, NORM_LANES = 8 };

/* Sums over the elements that were added so far. */
struct norms {
    size_t block_elements, at;
    double own, product;
    struct norm_lanes {
        double difference[NORM_LANES], reference[NORM_LANES], own[NORM_LANES], product[NORM_LANES];
    } lanes; /* of the block that has begun: each of every NORM_LANES-th element, which compilers make vectors of */
    uint64_t unbounded; /* elements that are infinite or NaN on one side only, or differently on the two */
    uint64_t unbounded_first;
    uint64_t unlike;  /* of these: differently on the two */
    uint64_t endless; /* elements of the reference that are infinite or NaN */
    double difference[NORM_BLOCKS], reference[NORM_BLOCKS];
};

/*
 * What a row of a run says of a tensor (run.h). Euclidean norms; all of them 0 for no elements. Of the worst block: its
 * elements, and as its scale the larger of its norm and of what is its share of the tensor's. `unbounded`, `unlike` and
 * `endless` as in struct norms: these elements are in none of the norms.
 *
 * Where a tensor's row is `of_change`: of changes, with `spread` the norm of all that differs, and `rounding`, `unit`,
 * `own` and `product` as in struct update_change.
 */
struct check_norms {
    double difference, reference, own;
    double product; /* inner product of own and reference */
    double spread, rounding, unit;
    double block_difference, block_scale;
    uint64_t block_first, block_count, unbounded, unlike, endless;
};

/* The norm of own - factor * reference, by the law of cosines. */
static inline double
norms_apart(const struct check_norms *norms, double factor)
{
    double times = factor * norms->reference;
    return sqrt(fmax(norms->own * norms->own - 2 * factor * norms->product + times * times, 0));
}

/* For a tensor of `count` elements. */
void norms_begin(struct norms *norms, size_t count);

/* The next `count` elements, own[] and reference[], of a type of element.h. */
void norms_add(struct norms *norms, int type, const void *own, const void *reference, size_t count);

struct check_norms norms_end(const struct norms *norms);

/* ---- how far an update is from the reference's, where both began with the same values ---- */
/*
 * A relative difference of values says nothing of an update that moves them by less than the tolerance; so the
 * difference is held against what the reference's update has changed. The same change ends a unit in the last place
 * away where it was rounded otherwise: so much of each element's difference does not count, but `square` has it.
 */
struct update_change {
    struct norms norms; /* of the changes: own is the reference's, and what differs beyond rounding */
    double square;      /* of all differences */
    double rounding;    /* sum of each element's change times its unit: of a change that is off by a fraction f, about f
                           times as much is the square of what rounding makes of it where it is less than a unit */
    double unit;        /* the largest */
    double own;         /* of the changes, rounding and all: squares of what was compared with the reference's ... */
    double product;     /* ... and the inner product of the two */
};

/* For a tensor of `count` elements. */
void change_begin(struct update_change *change, size_t count);

/* The next `count` elements of a type of element.h: own[] after the update, the reference's before and after it;
 * `units` in the last place of an element are rounding. */
void change_add(struct update_change *change, int type, double units, const void *own, const void *before,
                const void *after, size_t count);

/*
 * ---- memory in a thousand numbers, from which norms of differences can be estimated ----
 *
 * Each of SKETCH_COUNTERS consecutive blocks of elements becomes one sum with random signs. The sketch is linear, and
 * the norm of a sketch is an unbiased estimate of the norm of what it was made of, for large ones within some 5 %
 * (Alon, Matias, Szegedy: The space complexity of approximating the frequency moments, 1996). Memory of up to
 * SKETCH_COUNTERS elements is kept as it is, but for signs.
 */
enum { SKETCH_COUNTERS = 1024 };

struct sketch {
    uint64_t count, at; /* elements: all, and added so far */
    uint64_t unbounded; /* infinite or NaN: in no counter */
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
