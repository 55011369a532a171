/*
 * softgpu/random.h - the two generators of random bits behind <curand_kernel.h>, from their papers.
 *
 *   XORWOW            G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8 (14), 2003, section 3.1
 *   Philox4_32_10     J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11, section 3.3
 *
 * What a program can know of cuRAND's sequences from its documentation holds here too, bit by bit: Philox's key is the
 * seed, the upper half of its counter the subsequence, the lower half the offset over four. How cuRAND makes XORWOW's
 * first state of a seed is not documented; here it is SplitMix64 (G. Steele et al., OOPSLA 2014), so the numbers of a
 * seed are others than a GPU's, and as good.
 */
#ifndef SOFTGPU_RANDOM_H
#define SOFTGPU_RANDOM_H
#pragma GCC system_header

#include "softgpu/thread.h"

/* The states, with the sizes that they have in CUDA. `flag` and `extra`: the second of two normal numbers that were
 * made together, if it was not asked for yet. */
struct curandStateXORWOW {
    unsigned d, v[5];
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};

struct curandStatePhilox4_32_10 {
    uint4 ctr, output; /* the block of the sequence that `output` is */
    uint2 key;
    unsigned STATE; /* which of the four numbers of `output` is next */
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};

static_assert(sizeof(curandStateXORWOW) == 48 && sizeof(curandStatePhilox4_32_10) == 64, "as in CUDA");

namespace softgpu
{

/* ---- XORWOW ---- */

inline unsigned long long
split_mix(unsigned long long *state)
{
    unsigned long long z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

inline unsigned
xorwow_next(curandStateXORWOW *state)
{
    unsigned *const v = state->v;
    const unsigned t = v[0] ^ v[0] >> 2;
    v[0] = v[1];
    v[1] = v[2];
    v[2] = v[3];
    v[3] = v[4];
    v[4] = (v[4] ^ v[4] << 4) ^ (t ^ t << 1);
    return v[4] + (state->d += 362437);
}

inline void
xorwow_seed(curandStateXORWOW *state, unsigned long long seed)
{
    unsigned long long mix = seed;
    *state = curandStateXORWOW();
    for (unsigned &word : state->v)
        word = static_cast<unsigned>(split_mix(&mix) >> 32);
    state->v[0] |= 1; /* all zero would stay so */
    state->d = static_cast<unsigned>(split_mix(&mix) >> 32);
}

/* ---- Philox ---- */

inline uint4
philox(uint4 counter, uint2 key)
{
    for (int round = 0; round < 10; ++round) {
        const unsigned long long a = 0xd2511f53ull * counter.x, b = 0xcd9e8d57ull * counter.z;
        counter = make_uint4(static_cast<unsigned>(b >> 32) ^ counter.y ^ key.x, static_cast<unsigned>(b),
                             static_cast<unsigned>(a >> 32) ^ counter.w ^ key.y, static_cast<unsigned>(a));
        key.x += 0x9e3779b9u;
        key.y += 0xbb67ae85u;
    }
    return counter;
}

/* Adds to a number of 128 bits, x lowest: low to its lower half, high to its upper. */
inline uint4
philox_counter(uint4 counter, unsigned long long low, unsigned long long high)
{
    const unsigned long long old = static_cast<unsigned long long>(counter.y) << 32 | counter.x;
    low += old;
    high += (static_cast<unsigned long long>(counter.w) << 32 | counter.z) + (low < old);
    return make_uint4(static_cast<unsigned>(low), static_cast<unsigned>(low >> 32), static_cast<unsigned>(high),
                      static_cast<unsigned>(high >> 32));
}

inline void
philox_go_to(curandStatePhilox4_32_10 *state, uint4 counter, unsigned which)
{
    state->ctr = counter;
    state->STATE = which;
    state->output = philox(counter, state->key);
}

inline unsigned
philox_part(const uint4 &block, unsigned which)
{
    return which == 0 ? block.x : which == 1 ? block.y : which == 2 ? block.z : block.w;
}

/* The next four numbers of the sequence. */
inline uint4
philox_next4(curandStatePhilox4_32_10 *state)
{
    const uint4 here = state->output;
    const unsigned which = state->STATE;
    philox_go_to(state, philox_counter(state->ctr, 1, 0), which);
    unsigned four[4];
    for (unsigned i = 0; i < 4; ++i)
        four[i] = which + i < 4 ? philox_part(here, which + i) : philox_part(state->output, which + i - 4);
    return make_uint4(four[0], four[1], four[2], four[3]);
}

inline unsigned
philox_next(curandStatePhilox4_32_10 *state)
{
    const unsigned number = philox_part(state->output, state->STATE);
    if (++state->STATE == 4)
        philox_go_to(state, philox_counter(state->ctr, 1, 0), 0);
    return number;
}

} // namespace softgpu

#endif
