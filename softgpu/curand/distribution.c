/*
 * distribution.c - see distribution.h.
 */
#include "curand/distribution.h"

#include <math.h>

/* Numbers are drawn this many at a time. */
enum { BATCH = 256 };

#define TWO_PI 6.28318530717958647693

bool
distribution_is_paired(enum distribution_kind kind)
{
    return kind >= DISTRIBUTION_NORMAL;
}

size_t
distribution_cost(enum distribution_kind kind)
{
    return kind == DISTRIBUTION_UNIFORM_DOUBLE || kind == DISTRIBUTION_NORMAL_DOUBLE ||
                   kind == DISTRIBUTION_LOG_NORMAL_DOUBLE
               ? 2
               : 1;
}

/* The middle of the bits' interval, which keeps zero out; the last ones round to 1. */
static inline float
uniform_float(const uint32_t *bits)
{
    return (float)bits[0] * 0x1p-32f + 0x1p-33f;
}

/* 53 bits, counted from one. */
static inline double
uniform_double(const uint32_t *bits)
{
    uint64_t both = (uint64_t)bits[1] << 32 | bits[0];
    return (double)((both >> 11) + 1) * 0x1p-53;
}

#define DEFINE_PAIR(real, log_of, sqrt_of, sincos_of, exp_of)                                                       \
    static inline void pair_##real(const struct distribution *wanted, bool is_log, const uint32_t *bits, real *out) \
    {                                                                                                               \
        const size_t cost = sizeof(real) / sizeof(float);                                                           \
        real radius = sqrt_of((real)-2 * log_of(uniform_##real(bits)));                                             \
        real sine, cosine;                                                                                          \
        sincos_of((real)TWO_PI *uniform_##real(bits + cost), &sine, &cosine);                                       \
        out[0] = (real)wanted->mean + (real)wanted->deviation * radius * cosine;                                    \
        out[1] = (real)wanted->mean + (real)wanted->deviation * radius * sine;                                      \
        if (is_log) {                                                                                               \
            out[0] = exp_of(out[0]);                                                                                \
            out[1] = exp_of(out[1]);                                                                                \
        }                                                                                                           \
    }

DEFINE_PAIR(float, logf, sqrtf, sincosf, expf)
DEFINE_PAIR(double, log, sqrt, sincos, exp)

/* output[begin..begin + count) from bits[count * cost]. */
static void
convert(const struct distribution *wanted, const uint32_t *bits, void *output, size_t begin, size_t count)
{
    float *floats = (float *)output + begin;
    double *doubles = (double *)output + begin;
    bool is_log = wanted->kind == DISTRIBUTION_LOG_NORMAL || wanted->kind == DISTRIBUTION_LOG_NORMAL_DOUBLE;
    switch (wanted->kind) {
    case DISTRIBUTION_BITS:
        for (size_t i = 0; i < count; ++i)
            ((uint32_t *)output)[begin + i] = bits[i];
        break;
    case DISTRIBUTION_UNIFORM:
        for (size_t i = 0; i < count; ++i)
            floats[i] = uniform_float(bits + i);
        break;
    case DISTRIBUTION_UNIFORM_DOUBLE:
        for (size_t i = 0; i < count; ++i)
            doubles[i] = uniform_double(bits + 2 * i);
        break;
    case DISTRIBUTION_NORMAL:
    case DISTRIBUTION_LOG_NORMAL:
        for (size_t i = 0; i < count; i += 2)
            pair_float(wanted, is_log, bits + i, floats + i);
        break;
    case DISTRIBUTION_NORMAL_DOUBLE:
    case DISTRIBUTION_LOG_NORMAL_DOUBLE:
        for (size_t i = 0; i < count; i += 2)
            pair_double(wanted, is_log, bits + 2 * i, doubles + i);
        break;
    }
}

void
distribution_fill(const struct distribution *wanted, struct draw *draw, void *output, size_t count)
{
    uint32_t bits[BATCH];
    size_t cost = distribution_cost(wanted->kind), at_once = BATCH / cost;
    for (size_t begin = 0; begin < count; begin += at_once) {
        size_t length = count - begin < at_once ? count - begin : at_once;
        states_take(draw, bits, length * cost);
        convert(wanted, bits, output, begin, length);
    }
}
