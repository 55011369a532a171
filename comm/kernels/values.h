/*
 * values.h - this rank's values beside rank 0's: what a launch of the kernels in values.cu is given, and what it leaves
 * behind.
 *
 * Between comm/values.c and values.cu. C, and CUDA C++.
 */
#ifndef DDPRUN_COMM_KERNELS_VALUES_H
#define DDPRUN_COMM_KERNELS_VALUES_H

#include "comm/kernels/hash.h"

/* Of one tensor; zeroed before its first chunk. */
struct values_found {
    uint64_t largest;   /* bits of the largest difference, a float32, above the lower 32 bits of its element's number */
    uint64_t differing; /* elements with another value than rank 0's */
    uint64_t unlike;    /* elements that are infinite or NaN on one of the two ranks alone */
    uint64_t greatest;  /* bits of the greatest magnitude, a float32 */
};

/* A stretch of a tensor, by value as a kernel's argument. */
struct values_chunk {
    uint64_t mine, theirs; /* addresses; `theirs`: rank 0's values */
    uint64_t first, count; /* its elements among the tensor's */
};

/* A sample has one element of each of `count` stretches of the tensor, which the seed draws, and marked ones. */
enum { VALUES_MARKS = 8 };

struct values_sample {
    uint64_t value, apart; /* addresses of double[count + marked]; `apart` 0: not wanted */
    uint64_t elements, count, seed;
    uint64_t of_zero; /* not 0: `value` gets rank 0's values, else this rank's */
    uint64_t marked;
    uint64_t marks[VALUES_MARKS]; /* elements */
};

/* The element that stretch number i of the tensor is represented by. */
HASH_FUNCTION uint64_t
values_sampled_element(const struct values_sample *sample, uint64_t i)
{
    const uint64_t begin = i * sample->elements / sample->count, end = (i + 1) * sample->elements / sample->count;
    return begin + hash_mix(sample->seed * HASH_STEP + i) % (end - begin);
}

#endif
