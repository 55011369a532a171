/*
 * sequence.c - see sequence.h.
 */
#include "curand/sequence.h"

#include <pthread.h>
#include <string.h>

/* ---- XORWOW ---- */

enum { STATE_BITS = 160, STATE_WORDS = 5, WEYL = 362437 };

static uint32_t
xorwow_next(uint32_t x[STATE_WORDS], uint32_t *d)
{
    uint32_t t = x[0] ^ (x[0] >> 2);
    x[0] = x[1];
    x[1] = x[2];
    x[2] = x[3];
    x[3] = x[4];
    x[4] = (x[4] ^ (x[4] << 4)) ^ (t ^ (t << 1));
    *d += WEYL;
    return *d + x[4];
}

/* A step is linear in the bits of x: the matrix's row b is what a state with bit b alone becomes. */
struct jump {
    uint32_t row[STATE_BITS][STATE_WORDS];
};

static struct jump jumps[64]; /* [k]: 2^k steps; written inside the once */

static void
apply_jump(const struct jump *jump, uint32_t x[STATE_WORDS])
{
    uint32_t sum[STATE_WORDS] = {0};
    for (int b = 0; b < STATE_BITS; ++b) {
        uint32_t mask = 0 - (x[b / 32] >> b % 32 & 1u);
        for (int w = 0; w < STATE_WORDS; ++w)
            sum[w] ^= jump->row[b][w] & mask;
    }
    memcpy(x, sum, sizeof(sum));
}

static void
make_jumps(void)
{
    for (int b = 0; b < STATE_BITS; ++b) {
        uint32_t x[STATE_WORDS] = {0}, d = 0;
        x[b / 32] = 1u << b % 32;
        xorwow_next(x, &d);
        memcpy(jumps[0].row[b], x, sizeof(x));
    }
    for (int k = 1; k < 64; ++k) {
        for (int b = 0; b < STATE_BITS; ++b) {
            memcpy(jumps[k].row[b], jumps[k - 1].row[b], sizeof(jumps[k].row[b]));
            apply_jump(&jumps[k - 1], jumps[k].row[b]);
        }
    }
}

static void
xorwow_skip(uint32_t x[STATE_WORDS], uint32_t *d, uint64_t steps)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (steps == 0)
        return;
    pthread_once(&once, make_jumps);
    for (int k = 0; k < 64; ++k) {
        if (steps >> k & 1)
            apply_jump(&jumps[k], x);
    }
    *d += (uint32_t)steps * WEYL;
}

/* SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). */
static uint64_t
mix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void
sequence_start_xorwow(struct sequence *sequence, const uint32_t x[5], uint32_t d)
{
    memset(sequence, 0, sizeof(*sequence));
    sequence->kind = SEQUENCE_XORWOW;
    memcpy(sequence->xorwow.x, x, sizeof(sequence->xorwow.x));
    sequence->xorwow.d = d;
}

static void
start_xorwow(struct sequence *sequence, uint64_t seed, uint64_t position)
{
    uint64_t state = seed, words[3];
    for (int i = 0; i < 3; ++i)
        words[i] = mix(&state);
    uint32_t x[STATE_WORDS] = {(uint32_t)words[0], (uint32_t)(words[0] >> 32), (uint32_t)words[1],
                               (uint32_t)(words[1] >> 32), (uint32_t)words[2] | 1u /* not all zero */};
    sequence_start_xorwow(sequence, x, (uint32_t)(words[2] >> 32));
    xorwow_skip(sequence->xorwow.x, &sequence->xorwow.d, position);
    sequence->position = position;
}

/* ---- Philox4x32-10 ---- */

void
philox_block(const uint32_t counter[4], const uint32_t key[2], uint32_t block[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; ++round) {
        uint64_t first = (uint64_t)0xd2511f53u * c0, second = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(second >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(first >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)second;
        c3 = (uint32_t)first;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    block[0] = c0;
    block[1] = c1;
    block[2] = c2;
    block[3] = c3;
}

static void
make_block(struct sequence *sequence)
{
    uint64_t number = sequence->position / 4;
    const uint32_t counter[4] = {(uint32_t)number, (uint32_t)(number >> 32), 0, 0};
    philox_block(counter, sequence->philox.key, sequence->philox.block);
}

static void
take_philox(struct sequence *sequence, uint32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; ++i, ++sequence->position) {
        if (sequence->position % 4 == 0)
            make_block(sequence);
        numbers[i] = sequence->philox.block[sequence->position % 4];
    }
}

/* ---- both ---- */

void
sequence_start(struct sequence *sequence, enum sequence_kind kind, uint64_t seed, uint64_t position)
{
    if (kind == SEQUENCE_XORWOW) {
        start_xorwow(sequence, seed, position);
        return;
    }
    memset(sequence, 0, sizeof(*sequence));
    sequence->kind = kind;
    sequence->position = position;
    sequence->philox.key[0] = (uint32_t)seed;
    sequence->philox.key[1] = (uint32_t)(seed >> 32);
    make_block(sequence);
}

void
sequence_take(struct sequence *sequence, uint32_t *numbers, size_t count)
{
    if (sequence->kind == SEQUENCE_PHILOX) {
        take_philox(sequence, numbers, count);
        return;
    }
    sequence->position += count;
    for (size_t i = 0; i < count; ++i)
        numbers[i] = xorwow_next(sequence->xorwow.x, &sequence->xorwow.d);
}
