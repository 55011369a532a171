/*
 * draw.h - numbers drawn for SOFTGPU_UNRULY: SplitMix64 (G. Steele et al., "Fast splittable pseudorandom number
 * generators", OOPSLA 2014). The same seed gives the same numbers everywhere. C.
 */
#ifndef SOFTGPU_DRAW_H
#define SOFTGPU_DRAW_H

#include <stdint.h>

/* The next number of the sequence, any of 2^64. */
static inline uint64_t
softgpu_draw_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* From 0 to below - 1. */
static inline unsigned
softgpu_draw(uint64_t *state, unsigned below)
{
    return (unsigned)((softgpu_draw_bits(state) >> 32) * below >> 32);
}

/* A state of its own for each pair. */
static inline uint64_t
softgpu_mix(uint64_t seed, uint64_t number)
{
    uint64_t state = seed, mixed = softgpu_draw_bits(&state) ^ number;
    return softgpu_draw_bits(&mixed);
}

#endif
