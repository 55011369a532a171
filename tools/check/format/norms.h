/*
 * norms.h - how far two tensors are from each other, as a whole and block by block. Pure.
 *
 * The difference of a tensor of millions of elements hides two rows that were left out; so its elements are cut into
 * NORM_BLOCKS blocks, and the worst block counts too.
 */
#ifndef DDPRUN_TOOLS_CHECK_FORMAT_NORMS_H
#define DDPRUN_TOOLS_CHECK_FORMAT_NORMS_H

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

/* Euclidean norms; all of them 0 for no elements. */
struct norm_result {
    double difference, reference, own;
    double product;                    /* inner product of own and reference */
    uint64_t unbounded;                /* as in struct norms: they are in none of the norms */
    uint64_t unlike, endless;          /* as there */
    uint64_t block_first, block_count; /* elements of the worst block */
    double block_difference;
    double block_scale; /* the larger of the block's norm and of what is its share of the tensor's */
};

/* For a tensor of `count` elements. */
void norms_begin(struct norms *norms, size_t count);

/* The next `count` elements, own[] and reference[], of a type of element.h. */
void norms_add(struct norms *norms, int type, const void *own, const void *reference, size_t count);

struct norm_result norms_end(const struct norms *norms);

#endif
