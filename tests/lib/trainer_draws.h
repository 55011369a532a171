/*
 * trainer_draws.h - numbers of data and weights that look random, and are the same in every run and on every rank: the
 * next one of a sequence, or that of a seed and a place. For the trainers of all tests; includes nothing of the
 * product.
 */
#ifndef DDPRUN_TESTS_TRAINER_DRAWS_H
#define DDPRUN_TESTS_TRAINER_DRAWS_H

#include <cuda_runtime.h>

static unsigned random_sequence __attribute__((unused)) = 1; /* of the sequence; its seed */

/* The next one of the sequence, in [0, 1). */
static inline float
random_number(void)
{
    random_sequence = random_sequence * 1664525u + 1013904223u;
    return (float)(random_sequence >> 8) / (float)(1 << 24);
}

/* Of a seed and a place: in [0, 1). */
static __host__ __device__ inline float
hashed_float(unsigned seed, unsigned number)
{
    unsigned x = seed * 2654435761u + number * 40503u + 12345u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (float)(x & 0xffffu) / 65536.0f;
}

/* The same, in [-1, 1). */
static inline float
noise_of(unsigned seed, unsigned number)
{
    return 2 * hashed_float(seed, number) - 1;
}

#endif
