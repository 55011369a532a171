/*
 * random.h - a small random number generator, the same on every machine.
 *
 * xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", ACM Transactions
 * on Mathematical Software 42(4), 2016), seeded through one round of splitmix64 so that near seeds give unlike
 * sequences.
 */
#ifndef SAMPLES_RANDOM_H
#define SAMPLES_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state; /* never 0 */
};

static inline struct random
random_seeded(uint64_t seed)
{
    uint64_t z = seed + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (struct random){.state = z != 0 ? z : 1};
}

static inline uint64_t
random_bits(struct random *random)
{
    uint64_t x = random->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    random->state = x;
    return x * 0x2545f4914f6cdd1du;
}

/* Uniform in [0, 1), with the 24 bits that a float holds. */
static inline float
random_uniform(struct random *random)
{
    return (float)(random_bits(random) >> 40) / 16777216.0f;
}

/* Uniform in 0..limit-1. The bias of the remainder is below 2^-40 for the sizes used here. */
static inline size_t
random_below(struct random *random, size_t limit)
{
    return (size_t)(random_bits(random) % limit);
}

#endif
