/*
 * test_convert.c - conversions of arrays give the same bits with the instructions that the processor has as without,
 * for any length and alignment, and write nothing else. That these are CUDA's bits is
 * tests/cc/kernels/half.cu's.
 */
#include "library/convert.c"

#include "tests/lib/test.h"

enum { ROUNDS = 2000, LONGEST = 100, FLOATS = 1 << 20 };

#ifdef WIDE
/* `name`, wide and not, from `from` to two arrays full of marks. */
#define COMPARE(name, type, from, count, scale)                                                          \
    do {                                                                                                 \
        static type any_[FLOATS + 1], wide_[FLOATS + 1];                                                 \
        memset(any_, 0xa5, ((count) + 1) * sizeof(type));                                                \
        memset(wide_, 0xa5, ((count) + 1) * sizeof(type));                                               \
        name##_any(any_, from, count, scale);                                                            \
        name##_wide(wide_, from, count, scale);                                                          \
        ck_assert_msg(memcmp(any_, wide_, ((count) + 1) * sizeof(type)) == 0, "%s of %zu values", #name, \
                      (size_t)(count));                                                                  \
    } while (0)

static void
compare_all(const uint32_t *bits, size_t count, float scale)
{
    const float *floats = (const float *)bits;
    const uint16_t *halves = (const uint16_t *)bits;
    COMPARE(floats_to_halves, uint16_t, floats, count, scale);
    COMPARE(floats_to_bfloats, uint16_t, floats, count, scale);
    COMPARE(halves_to_floats, float, halves, count, scale);
    COMPARE(bfloats_to_floats, float, halves, count, scale);
}

TEST(any_length_and_place)
{
    static uint32_t bits[LONGEST + 8];
    unsigned seed = 1;
    for (size_t i = 0; i < LONGEST + 8; ++i)
        bits[i] = (uint32_t)rand_r(&seed) << 16 ^ (uint32_t)rand_r(&seed);
    for (int round = 0; round < ROUNDS; ++round)
        compare_all(bits + rand_r(&seed) % 8, (size_t)rand_r(&seed) % LONGEST, 0.25f);
}

TEST(any_value)
{
    static uint32_t bits[FLOATS];
    for (uint32_t i = 0; i < FLOATS; ++i) /* each pattern of 16 bits, and floats of each exponent */
        bits[i] = i << 16 ^ i * 2654435761u;
    compare_all(bits, FLOATS, 1.0f);
    compare_all(bits, FLOATS, 1.0f / 3.0f);
}
#endif

int
main(void)
{
#ifdef WIDE
    if (wide)
        return tests_run();
#endif
    puts("skipped: this processor has no AVX2 and F16C");
    return 77;
}
