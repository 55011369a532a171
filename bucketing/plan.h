/*
 * plan.h - into which buckets do the gradients go, and in which order are buckets launched?
 *
 * Buckets hold gradients that become ready one after another, of one element type. A large gradient may be sent in
 * pieces, in buckets that follow each other. Buckets are launched in order: bucket k never before bucket k - 1, on any
 * rank. The same inputs give the same plan on every rank; plan_bytes() is what ranks hash to make sure that they agree.
 *
 * Pure. A plan stays as it was built: it is const for all but the functions below.
 */
#ifndef DDPRUN_BUCKETING_PLAN_H
#define DDPRUN_BUCKETING_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Gradients are cut at multiples of this many bytes only: whole elements, whole pages of most memories. */
#define PLAN_CUT_BYTES UINT64_C(4096)

/* A gradient is not cut to fit a cap below this: the latencies would cost more than the cap can gain. */
#define PLAN_LEAST_SPLIT_BYTES (UINT64_C(1) << 20)

/* What a plan needs to know of a gradient. */
struct plan_gradient {
    uint64_t bytes;
    int type; /* only compared for equality: a bucket is reduced as one array of one type */
};

/* Bytes [first_byte, first_byte + bytes) of a gradient. */
struct plan_piece {
    size_t gradient;
    uint64_t first_byte;
    uint64_t bytes;
};

/* Consecutive pieces: [first, first + count), each of another gradient. */
struct plan_bucket {
    size_t first;
    size_t count;
    uint64_t bytes;
    int type;
};

struct plan {
    uint32_t version;
    size_t gradient_count;
    size_t piece_count;
    size_t bucket_count;
    struct plan_piece *pieces;   /* [piece_count]: as they leave; those of one gradient one after another */
    size_t *bucket_of;           /* [gradient_count]: by gradient number, the first bucket with a piece of it; */
    size_t *last_bucket_of;      /* [gradient_count]: the last. All between the two hold pieces of it, too */
    struct plan_bucket *buckets; /* [bucket_count] */
};

/*
 * Builds the plan that sends gradients[] in `order` (a permutation of 0..count-1), with buckets of at most cap_bytes; a
 * larger gradient is sent in pieces of at most the cap, or whole and alone if the cap is below PLAN_LEAST_SPLIT_BYTES.
 * Returns NULL when memory runs out or `order` is not a permutation. plan_free() releases it.
 */
const struct plan *plan_build(uint32_t version, const struct plan_gradient *gradients, const size_t *order,
                              size_t count, uint64_t cap_bytes);

/*
 * Builds the plan with these pieces and buckets: bucket k holds pieces[bucket_ends[k-1] .. bucket_ends[k]). Neighbours
 * of one gradient in one bucket become one piece. Returns NULL when memory runs out, or if the pieces of a gradient are
 * not the whole of it, front to back, one after another, or a bucket is empty or mixes types.
 */
const struct plan *plan_of_pieces(uint32_t version, const struct plan_gradient *gradients, size_t gradient_count,
                                  const struct plan_piece *pieces, size_t piece_count, const size_t *bucket_ends,
                                  size_t bucket_count);

/*
 * The same pieces in the same order, in other buckets: so many neighbours in one, or, with 0, as PyTorch's
 * DistributedDataParallel has them (its defaults: closed once it has 25 MiB, the first one once it has 1 MiB).
 * `gradients` are those that the plan was built for. NULL when memory runs out, or where the plan has these buckets.
 */
const struct plan *plan_join(const struct plan *plan, const struct plan_gradient *gradients, size_t neighbours);

/* Whether buckets of two plans of the same pieces end at the same places. */
bool plan_has_buckets_of(const struct plan *plan, const struct plan *other);

void plan_free(const struct plan *plan);

/*
 * The plan as bytes, little-endian 64-bit words, equal exactly when plans are: version, counts, pieces, bucket bounds
 * and sizes. Returns malloc'ed memory of *bytes_p bytes, or NULL.
 */
void *plan_bytes(const struct plan *plan, size_t *bytes_p);

#endif
