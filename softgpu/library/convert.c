/*
 * convert.c - see softgpu/convert.h. Each conversion is one loop, compiled twice: for any processor, as the integer
 * arithmetic of half.h, which compilers turn into vector code, and for AVX2 with F16C, where binary16 has instructions.
 */
#include "softgpu/convert.h"

#include "library/half.h"

#include <stdbool.h>

#define FLOATS_TO_HALVES(to, from, i)  (to)[i] = half_from_float((from)[i] * scale)
#define FLOATS_TO_BFLOATS(to, from, i) (to)[i] = bfloat_from_float((from)[i] * scale)
#define HALVES_TO_FLOATS(to, from, i)  (to)[i] = float_from_half((from)[i]) * scale
#define BFLOATS_TO_FLOATS(to, from, i) (to)[i] = float_from_bfloat((from)[i]) * scale

/* name_any(): for any processor. */
#define DEFINE_ANY(name, to_type, from_type, convert)                                                       \
    static void name##_any(to_type *restrict to, const from_type *restrict from, size_t count, float scale) \
    {                                                                                                       \
        for (size_t i = 0; i < count; ++i)                                                                  \
            convert(to, from, i);                                                                           \
    }

DEFINE_ANY(floats_to_halves, uint16_t, float, FLOATS_TO_HALVES)
DEFINE_ANY(floats_to_bfloats, uint16_t, float, FLOATS_TO_BFLOATS)
DEFINE_ANY(halves_to_floats, float, uint16_t, HALVES_TO_FLOATS)
DEFINE_ANY(bfloats_to_floats, float, uint16_t, BFLOATS_TO_FLOATS)

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define WIDE __attribute__((target("avx2,f16c")))

/* Eight at a time. The instructions keep a NaN's sign and payload, which CUDA's conversions do not. */
WIDE static inline void
eight_to_halves(uint16_t *to, const float *from, float scale)
{
    const __m256 value = _mm256_mul_ps(_mm256_loadu_ps(from), _mm256_set1_ps(scale));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m128i nan_16 = _mm_packs_epi32(_mm256_castsi256_si128(nan), _mm256_extracti128_si256(nan, 1));
    const __m128i bits = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((__m128i *)to, _mm_blendv_epi8(bits, _mm_set1_epi16(0x7fff), nan_16));
}

WIDE static inline void
eight_from_halves(float *to, const uint16_t *from, float scale)
{
    const __m256 value = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
    const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    const __m256 one_nan = _mm256_blendv_ps(value, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)), nan);
    _mm256_storeu_ps(to, _mm256_mul_ps(one_nan, _mm256_set1_ps(scale)));
}

WIDE static void
floats_to_halves_wide(uint16_t *restrict to, const float *restrict from, size_t count, float scale)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        eight_to_halves(to + i, from + i, scale);
    for (; i < count; ++i)
        FLOATS_TO_HALVES(to, from, i);
}

WIDE static void
halves_to_floats_wide(float *restrict to, const uint16_t *restrict from, size_t count, float scale)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        eight_from_halves(to + i, from + i, scale);
    for (; i < count; ++i)
        HALVES_TO_FLOATS(to, from, i);
}

WIDE static void
floats_to_bfloats_wide(uint16_t *restrict to, const float *restrict from, size_t count, float scale)
{
    for (size_t i = 0; i < count; ++i)
        FLOATS_TO_BFLOATS(to, from, i);
}

WIDE static void
bfloats_to_floats_wide(float *restrict to, const uint16_t *restrict from, size_t count, float scale)
{
    for (size_t i = 0; i < count; ++i)
        BFLOATS_TO_FLOATS(to, from, i);
}

/* clang 14 does not know the name of F16C. In a virtual machine CPUID costs microseconds, so it is asked once. */
static bool wide;

__attribute__((constructor)) static void
ask_processor(void)
{
    unsigned a, b, c, d;
    __builtin_cpu_init();
    wide = __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

#define CHOOSE(name) (wide ? name##_wide : name##_any)
#else
#define CHOOSE(name) name##_any
#endif

void
softgpu_floats_to_halves(uint16_t *to, const float *from, size_t count, float scale)
{
    CHOOSE(floats_to_halves)(to, from, count, scale);
}

void
softgpu_floats_to_bfloats(uint16_t *to, const float *from, size_t count, float scale)
{
    CHOOSE(floats_to_bfloats)(to, from, count, scale);
}

void
softgpu_halves_to_floats(float *to, const uint16_t *from, size_t count, float scale)
{
    CHOOSE(halves_to_floats)(to, from, count, scale);
}

void
softgpu_bfloats_to_floats(float *to, const uint16_t *from, size_t count, float scale)
{
    CHOOSE(bfloats_to_floats)(to, from, count, scale);
}
