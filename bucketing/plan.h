/*
 * plan.h - into which buckets do the gradients go, and in which order do buckets leave?
 *
 * Buckets hold gradients that become ready one after another, of one element type, up to a size. They leave in order:
 * bucket k never before bucket k - 1, on any rank. The same inputs give the same plan on every rank; plan_bytes() is
 * what ranks hash to make sure that they agree.
 *
 * Pure. A plan is never changed after it was built.
 */
#ifndef DDPRUN_BUCKETING_PLAN_H
#define DDPRUN_BUCKETING_PLAN_H

#include <stddef.h>
#include <stdint.h>

/* What a plan needs to know of a gradient. */
struct plan_gradient {
    uint64_t bytes;
    int type; /* only compared for equality: a bucket is reduced as one array of one type */
};

/* Consecutive entries of the plan's order: [first, first + count). */
struct plan_bucket {
    size_t first;
    size_t count;
    uint64_t bytes;
    int type;
};

struct plan {
    uint32_t version;
    size_t gradient_count;
    size_t bucket_count;
    size_t *order;               /* [gradient_count]: gradients as they leave */
    size_t *bucket_of;           /* [gradient_count]: by gradient number */
    struct plan_bucket *buckets; /* [bucket_count] */
};

/*
 * Builds the plan that sends gradients[] in `order` (a permutation of 0..count-1), with buckets of at most cap_bytes,
 * or of one gradient where that alone is larger. Returns NULL when memory runs out or `order` is not a permutation.
 * plan_free() releases it.
 */
struct plan *plan_build(uint32_t version, const struct plan_gradient *gradients, const size_t *order, size_t count,
                        uint64_t cap_bytes);

void plan_free(struct plan *plan);

/*
 * The plan as bytes, little-endian 64-bit words, equal exactly when plans are: version, counts, order, bucket bounds
 * and sizes. Returns malloc'ed memory of *bytes_p bytes, or NULL.
 */
void *plan_bytes(const struct plan *plan, size_t *bytes_p);

#endif
