/*
 * softgpu/half_functions.h - what NVIDIA's half and bfloat16 headers leave to device code: fused operations, functions,
 * atomics.
 *
 * Read twice, by cuda_fp16.h and cuda_bf16.h, which define
 *   SOFTGPU_HALF, SOFTGPU_HALF2      the types
 *   SOFTGPU_HALF_NAME(name)          __half2int_rn for the first, __bfloat162int_rn for the second
 *   SOFTGPU_HALF_FROM(double), SOFTGPU_HALF_TO(half) -> float
 *   SOFTGPU_HALF_LOW, SOFTGPU_HALF_HIGH, SOFTGPU_HALF_PAIR  parts of a pair, and a pair of two
 * and undefined here. Values are computed in double and rounded once: a product and a sum of halves are exact there, or
 * as good as exact.
 */
#pragma GCC system_header

#define SOFTGPU_H1(name, parameters, expression) \
    SOFTGPU_INLINE SOFTGPU_HALF name parameters  \
    {                                            \
        return SOFTGPU_HALF_FROM(expression);    \
    }
#define SOFTGPU_D(x) (static_cast<double>(SOFTGPU_HALF_TO(x)))

/* ---- fused multiply-add ---- */

SOFTGPU_H1(__hfma, (SOFTGPU_HALF a, SOFTGPU_HALF b, SOFTGPU_HALF c), SOFTGPU_D(a) * SOFTGPU_D(b) + SOFTGPU_D(c))
SOFTGPU_H1(__hfma_relu, (SOFTGPU_HALF a, SOFTGPU_HALF b, SOFTGPU_HALF c),
           softgpu::fmax(SOFTGPU_D(a) * SOFTGPU_D(b) + SOFTGPU_D(c), 0.0))
SOFTGPU_H1(__hfma_sat, (SOFTGPU_HALF a, SOFTGPU_HALF b, SOFTGPU_HALF c),
           softgpu::fmin(softgpu::fmax(SOFTGPU_D(a) * SOFTGPU_D(b) + SOFTGPU_D(c), 0.0), 1.0))

#define SOFTGPU_H2_FUSED(name, single)                                                                      \
    SOFTGPU_INLINE SOFTGPU_HALF2 name(SOFTGPU_HALF2 a, SOFTGPU_HALF2 b, SOFTGPU_HALF2 c)                    \
    {                                                                                                       \
        return SOFTGPU_HALF_PAIR(single(SOFTGPU_HALF_LOW(a), SOFTGPU_HALF_LOW(b), SOFTGPU_HALF_LOW(c)),     \
                                 single(SOFTGPU_HALF_HIGH(a), SOFTGPU_HALF_HIGH(b), SOFTGPU_HALF_HIGH(c))); \
    }
SOFTGPU_H2_FUSED(__hfma2, __hfma)
SOFTGPU_H2_FUSED(__hfma2_relu, __hfma_relu)
SOFTGPU_H2_FUSED(__hfma2_sat, __hfma_sat)
#undef SOFTGPU_H2_FUSED

/* ---- functions of one argument, and of each half of a pair ---- */

#define SOFTGPU_H_FUNCTION(name, expression)                                                   \
    SOFTGPU_H1(h##name, (SOFTGPU_HALF a), expression)                                          \
    SOFTGPU_INLINE SOFTGPU_HALF2 h2##name(SOFTGPU_HALF2 a)                                     \
    {                                                                                          \
        return SOFTGPU_HALF_PAIR(h##name(SOFTGPU_HALF_LOW(a)), h##name(SOFTGPU_HALF_HIGH(a))); \
    }
SOFTGPU_H_FUNCTION(exp, std::exp(SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(exp2, std::exp2(SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(exp10, std::pow(10.0, SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(log, std::log(SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(log2, std::log2(SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(log10, std::log10(SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(sqrt, std::sqrt(SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(rsqrt, 1.0 / std::sqrt(SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(rcp, 1.0 / SOFTGPU_D(a))
SOFTGPU_H_FUNCTION(sin, std::sin(SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(cos, std::cos(SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(tanh, std::tanh(SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(tanh_approx, std::tanh(SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(floor, std::floor(SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(ceil, std::ceil(SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(trunc, std::trunc(SOFTGPU_D(a)))
SOFTGPU_H_FUNCTION(rint, std::rint(SOFTGPU_D(a)))
#undef SOFTGPU_H_FUNCTION
#undef SOFTGPU_H1

/* ---- to integers; towards zero is in NVIDIA's header ---- */

#define SOFTGPU_H_TO_INTEGER(suffix, type)                             \
    SOFTGPU_INLINE type SOFTGPU_HALF_NAME(suffix##_rn)(SOFTGPU_HALF a) \
    {                                                                  \
        return softgpu::saturate_to<type>(std::rint(SOFTGPU_D(a)));    \
    }                                                                  \
    SOFTGPU_INLINE type SOFTGPU_HALF_NAME(suffix##_rd)(SOFTGPU_HALF a) \
    {                                                                  \
        return softgpu::saturate_to<type>(std::floor(SOFTGPU_D(a)));   \
    }                                                                  \
    SOFTGPU_INLINE type SOFTGPU_HALF_NAME(suffix##_ru)(SOFTGPU_HALF a) \
    {                                                                  \
        return softgpu::saturate_to<type>(std::ceil(SOFTGPU_D(a)));    \
    }
SOFTGPU_H_TO_INTEGER(int, int)
SOFTGPU_H_TO_INTEGER(uint, unsigned)
SOFTGPU_H_TO_INTEGER(short, short)
SOFTGPU_H_TO_INTEGER(ushort, unsigned short)
SOFTGPU_H_TO_INTEGER(ll, long long)
SOFTGPU_H_TO_INTEGER(ull, unsigned long long)
#undef SOFTGPU_H_TO_INTEGER
#undef SOFTGPU_D

/* ---- atomics ---- */

SOFTGPU_INLINE SOFTGPU_HALF
atomicAdd(SOFTGPU_HALF *address, SOFTGPU_HALF value)
{
    return softgpu::atomic_update(address, [value](SOFTGPU_HALF old) { return __hadd(old, value); });
}

SOFTGPU_INLINE SOFTGPU_HALF2
atomicAdd(SOFTGPU_HALF2 *address, SOFTGPU_HALF2 value)
{
    return softgpu::atomic_update(address, [value](SOFTGPU_HALF2 old) { return __hadd2(old, value); });
}

#undef SOFTGPU_HALF
#undef SOFTGPU_HALF2
#undef SOFTGPU_HALF_NAME
#undef SOFTGPU_HALF_FROM
#undef SOFTGPU_HALF_TO
#undef SOFTGPU_HALF_LOW
#undef SOFTGPU_HALF_HIGH
#undef SOFTGPU_HALF_PAIR
