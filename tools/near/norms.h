/*
 * norms.h - how far two tensors are from each other, as a whole and block by block. Pure.
 *
 * The difference of a tensor of millions of elements hides two rows that were left out; so its elements are cut into
 * NORM_BLOCKS blocks, and the worst block counts too.
 */
#ifndef DDPRUN_TOOLS_NEAR_NORMS_H
#define DDPRUN_TOOLS_NEAR_NORMS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { NORM_BLOCKS = 256, NORM_LANES = 8 };

/* Sums over the elements that were added so far. */
struct norms {
    size_t block_elements, added;
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
 * `own` and `product` as in struct update_change (change.h).
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

#endif
