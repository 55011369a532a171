/*
 * sequence.h - the two sequences of 32-bit random numbers: XORWOW (Marsaglia, "Xorshift RNGs", Journal of Statistical
 * Software 8(14), 2003) and Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
 *
 * A sequence is a function of seed and position, so that any part of it can be had at once. Philox's are those of its
 * paper, with the seed as the key and the position as the counter; XORWOW's state comes from the seed by a mixing
 * function of the stand-in, so its numbers are not those of NVIDIA's library. Pure functions; any thread.
 */
#ifndef SOFTGPU_CURAND_SEQUENCE_H
#define SOFTGPU_CURAND_SEQUENCE_H

#include <stddef.h>
#include <stdint.h>

enum sequence_kind { SEQUENCE_XORWOW, SEQUENCE_PHILOX };

/* A place in a sequence, from which numbers are taken one after the other. */
struct sequence {
    enum sequence_kind kind;
    uint64_t position; /* of the next number */
    union {
        struct {
            uint32_t x[5], d;
        } xorwow;
        struct {
            uint32_t key[2];
            uint32_t block[4]; /* the numbers of the counter at `position`, unless that is its first */
        } philox;
    };
};

/* The sequence of `seed`, `position` numbers from its beginning. */
void sequence_start(struct sequence *sequence, enum sequence_kind kind, uint64_t seed, uint64_t position);

/* numbers[count] = the next ones. */
void sequence_take(struct sequence *sequence, uint32_t *numbers, size_t count);

/* XORWOW with a state as Marsaglia's paper has it, for tests. */
void sequence_start_xorwow(struct sequence *sequence, const uint32_t x[5], uint32_t d);

/* Ten rounds of Philox4x32. */
void philox_block(const uint32_t counter[4], const uint32_t key[2], uint32_t block[4]);

#endif
