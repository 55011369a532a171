/*
 * xorwow.c - jumps in the sequence of XORWOW, for curand_init() and skipahead() in kernels (device/include).
 *
 * Without its counter, the generator is a linear map of 160 bits over GF(2): n steps are the n-th power of a matrix
 * (Haramoto et al., "Efficient jump ahead for F2-linear random number generators", INFORMS J. Computing 20 (3), 2008).
 * The powers of two are made once, in about 10 ms, when the first kernel jumps.
 */
#include "softgpu/block.h"

#include <pthread.h>
#include <stdlib.h>

enum { WORDS = 5, BITS = 32 * WORDS, POWERS = 67 + 64 };

/* What becomes of a state in which only bit b is set, for each b. */
struct matrix {
    unsigned column[BITS][WORDS];
};

static struct matrix *powers; /* [k]: 2^k steps */
static pthread_once_t powers_once = PTHREAD_ONCE_INIT;

static void
multiply(const struct matrix *m, const unsigned from[WORDS], unsigned to[WORDS])
{
    unsigned sum[WORDS] = {0};
    for (unsigned w = 0; w < WORDS; ++w) {
        for (unsigned rest = from[w]; rest != 0; rest &= rest - 1) {
            const unsigned *column = m->column[32 * w + (unsigned)__builtin_ctz(rest)];
            for (unsigned i = 0; i < WORDS; ++i)
                sum[i] ^= column[i];
        }
    }
    for (unsigned i = 0; i < WORDS; ++i)
        to[i] = sum[i];
}

/* One step of the generator, as in softgpu/random.h. */
static void
make_one_step(struct matrix *m)
{
    for (unsigned b = 0; b < BITS; ++b) {
        unsigned v[WORDS] = {0};
        v[b / 32] = 1u << b % 32;
        const unsigned t = v[0] ^ v[0] >> 2;
        unsigned *to = m->column[b];
        for (unsigned i = 0; i + 1 < WORDS; ++i)
            to[i] = v[i + 1];
        to[WORDS - 1] = (v[4] ^ v[4] << 4) ^ (t ^ t << 1);
    }
}

static void
make_powers(void)
{
    struct matrix *made = malloc(POWERS * sizeof(*made));
    if (made == NULL)
        return; /* the caller reports it */
    make_one_step(&made[0]);
    for (unsigned k = 1; k < POWERS; ++k) {
        for (unsigned b = 0; b < BITS; ++b)
            multiply(&made[k - 1], made[k - 1].column[b], made[k].column[b]);
    }
    powers = made;
}

void
softgpu_xorwow_jump(unsigned v[5], unsigned long long n, unsigned power)
{
    if (n == 0)
        return;
    pthread_once(&powers_once, make_powers);
    if (powers == NULL)
        softgpu_kernel_fatal("no memory for the tables of curand_init");
    for (unsigned k = power; n != 0; n >>= 1, ++k) {
        if ((n & 1) != 0)
            multiply(&powers[k], v, v);
    }
}
