/*
 * curand_kernel.h - in the place of NVIDIA's: random numbers in kernels, by XORWOW and Philox4_32_10. cuRAND
 * documentation, "Device API".
 *
 * Deterministic: the same seed, subsequence and offset give the same numbers, on every machine. Bits and uniform
 * numbers of Philox are those of a GPU; of XORWOW they are not (softgpu/random.h says why); normal numbers of Philox
 * agree up to the last digits of log, sin and cos. The other generators and distributions are refused at the user's
 * line.
 */
#ifndef SOFTGPU_CURAND_KERNEL_H
#define SOFTGPU_CURAND_KERNEL_H
#pragma GCC system_header

#if __has_include(<curand.h>)
#include <curand.h>
#endif

#include "softgpu/random.h"

typedef curandStateXORWOW curandStateXORWOW_t, curandState_t, curandState;
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

/* ---- where a thread's sequence begins ---- */

/* Forgets the normal number that was kept: it belongs to the place that is left. */
template <class State>
SOFTGPU_INLINE void
softgpu_forget_normal(State *state)
{
    state->boxmuller_flag = state->boxmuller_flag_double = 0;
}

SOFTGPU_INLINE void
skipahead(unsigned long long n, curandStateXORWOW *state)
{
    softgpu_xorwow_jump(state->v, n, 0);
    state->d += 362437u * static_cast<unsigned>(n);
    softgpu_forget_normal(state);
}

/* Subsequences are 2^67 numbers apart. */
SOFTGPU_INLINE void
skipahead_sequence(unsigned long long n, curandStateXORWOW *state)
{
    softgpu_xorwow_jump(state->v, n, 67);
    softgpu_forget_normal(state);
}

SOFTGPU_INLINE void
skipahead(unsigned long long n, curandStatePhilox4_32_10 *state)
{
    const unsigned which = state->STATE + static_cast<unsigned>(n & 3);
    softgpu::philox_go_to(state, softgpu::philox_counter(state->ctr, n / 4 + which / 4, 0), which % 4);
    softgpu_forget_normal(state);
}

/* Subsequences are 2^66 numbers apart. */
SOFTGPU_INLINE void
skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10 *state)
{
    softgpu::philox_go_to(state, softgpu::philox_counter(state->ctr, 0, n), state->STATE);
    softgpu_forget_normal(state);
}

SOFTGPU_INLINE void
curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
            curandStateXORWOW *state)
{
    softgpu::xorwow_seed(state, seed);
    skipahead_sequence(subsequence, state);
    skipahead(offset, state);
}

SOFTGPU_INLINE void
curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
            curandStatePhilox4_32_10 *state)
{
    *state = curandStatePhilox4_32_10();
    state->key = make_uint2(static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32));
    const uint4 begin = softgpu::philox_counter(make_uint4(0, 0, 0, 0), offset / 4, subsequence);
    softgpu::philox_go_to(state, begin, static_cast<unsigned>(offset % 4));
}

/* ---- bits ---- */

SOFTGPU_INLINE unsigned
curand(curandStateXORWOW *state)
{
    return softgpu::xorwow_next(state);
}

SOFTGPU_INLINE unsigned
curand(curandStatePhilox4_32_10 *state)
{
    return softgpu::philox_next(state);
}

SOFTGPU_INLINE uint4
curand4(curandStatePhilox4_32_10 *state)
{
    return softgpu::philox_next4(state);
}

/* ---- distributions of given bits ---- */

namespace softgpu
{

/* In (0, 1]: the middle of the interval of 2^-32 that the bits name, rounded. */
inline float
uniform(unsigned x)
{
    return static_cast<float>(x) * 2.3283064365386963e-10f + 1.1641532182693481e-10f;
}

/* 53 bits of two numbers. */
inline double
uniform_double(unsigned x, unsigned y)
{
    return static_cast<double>(x ^ static_cast<unsigned long long>(y) << 21) * 1.1102230246251565e-16 +
           5.551115123125783e-17;
}

/* Box and Muller 1958: two uniform numbers to two independent normal ones. */
inline float2
normal2(unsigned x, unsigned y)
{
    const float length = sqrtf(-2.0f * logf(uniform(x))), angle = 6.2831853f * uniform(y);
    return make_float2(length * sinf(angle), length * cosf(angle));
}

inline double2
normal2_double(unsigned x0, unsigned x1, unsigned y0, unsigned y1)
{
    const double length = std::sqrt(-2.0 * std::log(uniform_double(x0, x1)));
    const double angle = 6.283185307179586476925 * uniform_double(y0, y1);
    return make_double2(length * std::sin(angle), length * std::cos(angle));
}

/* What a function of the device API can draw from. */
template <class State> struct is_generator {
    enum { value = 0 };
};
template <> struct is_generator<curandStateXORWOW> {
    enum { value = 1 };
};
template <> struct is_generator<curandStatePhilox4_32_10> {
    enum { value = 1 };
};
template <class State, class T> using drawn = typename std::enable_if<is_generator<State>::value, T>::type;

} // namespace softgpu

/* ---- one number from any generator ---- */

template <class State>
SOFTGPU_INLINE softgpu::drawn<State, float>
curand_uniform(State *state)
{
    return softgpu::uniform(curand(state));
}

template <class State>
SOFTGPU_INLINE softgpu::drawn<State, double>
curand_uniform_double(State *state)
{
    const unsigned x = curand(state), y = curand(state);
    return softgpu::uniform_double(x, y);
}

template <class State>
SOFTGPU_INLINE softgpu::drawn<State, float2>
curand_normal2(State *state)
{
    const unsigned x = curand(state), y = curand(state);
    return softgpu::normal2(x, y);
}

template <class State>
SOFTGPU_INLINE softgpu::drawn<State, double2>
curand_normal2_double(State *state)
{
    const unsigned x0 = curand(state), x1 = curand(state), y0 = curand(state), y1 = curand(state);
    return softgpu::normal2_double(x0, x1, y0, y1);
}

/* Every other call gives the second number of a pair. */
template <class State>
inline softgpu::drawn<State, float>
curand_normal(State *state)
{
    if (state->boxmuller_flag != 0) {
        state->boxmuller_flag = 0;
        return state->boxmuller_extra;
    }
    const float2 pair = curand_normal2(state);
    state->boxmuller_flag = 1;
    state->boxmuller_extra = pair.y;
    return pair.x;
}

template <class State>
inline softgpu::drawn<State, double>
curand_normal_double(State *state)
{
    if (state->boxmuller_flag_double != 0) {
        state->boxmuller_flag_double = 0;
        return state->boxmuller_extra_double;
    }
    const double2 pair = curand_normal2_double(state);
    state->boxmuller_flag_double = 1;
    state->boxmuller_extra_double = pair.y;
    return pair.x;
}

template <class State>
inline softgpu::drawn<State, float>
curand_log_normal(State *state, float mean, float deviation)
{
    return expf(mean + deviation * curand_normal(state));
}

template <class State>
inline softgpu::drawn<State, double>
curand_log_normal_double(State *state, double mean, double deviation)
{
    return std::exp(mean + deviation * curand_normal_double(state));
}

template <class State>
inline softgpu::drawn<State, float2>
curand_log_normal2(State *state, float mean, float deviation)
{
    const float2 n = curand_normal2(state);
    return make_float2(expf(mean + deviation * n.x), expf(mean + deviation * n.y));
}

template <class State>
inline softgpu::drawn<State, double2>
curand_log_normal2_double(State *state, double mean, double deviation)
{
    const double2 n = curand_normal2_double(state);
    return make_double2(std::exp(mean + deviation * n.x), std::exp(mean + deviation * n.y));
}

/* ---- four numbers, or two doubles, of one block of Philox ---- */

SOFTGPU_INLINE float4
curand_uniform4(curandStatePhilox4_32_10 *state)
{
    const uint4 b = curand4(state);
    return make_float4(softgpu::uniform(b.x), softgpu::uniform(b.y), softgpu::uniform(b.z), softgpu::uniform(b.w));
}

SOFTGPU_INLINE double2
curand_uniform2_double(curandStatePhilox4_32_10 *state)
{
    const uint4 b = curand4(state);
    return make_double2(softgpu::uniform_double(b.x, b.y), softgpu::uniform_double(b.z, b.w));
}

inline float4
curand_normal4(curandStatePhilox4_32_10 *state)
{
    const uint4 b = curand4(state);
    const float2 first = softgpu::normal2(b.x, b.y), second = softgpu::normal2(b.z, b.w);
    return make_float4(first.x, first.y, second.x, second.y);
}

inline float4
curand_log_normal4(curandStatePhilox4_32_10 *state, float mean, float deviation)
{
    const float4 n = curand_normal4(state);
    return make_float4(expf(mean + deviation * n.x), expf(mean + deviation * n.y), expf(mean + deviation * n.z),
                       expf(mean + deviation * n.w));
}

/* CUDA 13 aligns double4 in a new way under new names, and deprecates the old: both are served. */
#define SOFTGPU_FOUR_DOUBLES(type, name, pair_of, parameters, ...)                 \
    inline type name parameters                                                    \
    {                                                                              \
        const double2 first = pair_of(__VA_ARGS__), second = pair_of(__VA_ARGS__); \
        type four;                                                                 \
        four.x = first.x, four.y = first.y, four.z = second.x, four.w = second.y;  \
        return four;                                                               \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
SOFTGPU_FOUR_DOUBLES(double4, curand_uniform4_double, curand_uniform2_double, (curandStatePhilox4_32_10 * state), state)
SOFTGPU_FOUR_DOUBLES(double4, curand_normal4_double, curand_normal2_double, (curandStatePhilox4_32_10 * state), state)
SOFTGPU_FOUR_DOUBLES(double4, curand_log_normal4_double, curand_log_normal2_double,
                     (curandStatePhilox4_32_10 * state, double mean, double deviation), state, mean, deviation)
#pragma GCC diagnostic pop
#undef SOFTGPU_FOUR_DOUBLES

/* ---- refused where a program begins to use them ---- */

#define SOFTGPU_NO_GENERATOR(name)                                                                                     \
    struct name {                                                                                                      \
        unsigned long long softgpu_unused[8];                                                                          \
    };                                                                                                                 \
    typedef name name##_t;                                                                                             \
    template <class... Seeds>                                                                                          \
    void __attribute__((error("softgpu-cc does not support " #name "; use curandState or curandStatePhilox4_32_10")))  \
    softgpu_no_generator(name *, Seeds...);                                                                            \
    template <class Seed, class Second, class Third> SOFTGPU_INLINE void curand_init(Seed, Second, Third, name *state) \
    {                                                                                                                  \
        softgpu_no_generator(state);                                                                                   \
    }                                                                                                                  \
    template <class Seed, class Second, class Third, class Fourth>                                                     \
    SOFTGPU_INLINE void curand_init(Seed, Second, Third, Fourth, name *state)                                          \
    {                                                                                                                  \
        softgpu_no_generator(state);                                                                                   \
    }                                                                                                                  \
    SOFTGPU_INLINE unsigned curand(name *state)                                                                        \
    {                                                                                                                  \
        softgpu_no_generator(state);                                                                                   \
        return 0;                                                                                                      \
    }                                                                                                                  \
    template <> struct softgpu::is_generator<name> {                                                                   \
        enum { value = 1 };                                                                                            \
    };
SOFTGPU_NO_GENERATOR(curandStateMRG32k3a)
SOFTGPU_NO_GENERATOR(curandStateMtgp32)
SOFTGPU_NO_GENERATOR(curandStateSobol32)
SOFTGPU_NO_GENERATOR(curandStateScrambledSobol32)
SOFTGPU_NO_GENERATOR(curandStateSobol64)
SOFTGPU_NO_GENERATOR(curandStateScrambledSobol64)
#undef SOFTGPU_NO_GENERATOR

#define SOFTGPU_NO_DISTRIBUTION(name)                                                                \
    __attribute__((error("softgpu-cc does not support " #name                                        \
                         "; draw with curand_uniform and invert the sum"))) int softgpu_no_##name(); \
    template <class... T> SOFTGPU_INLINE unsigned name(T...)                                         \
    {                                                                                                \
        return static_cast<unsigned>(softgpu_no_##name());                                           \
    }
SOFTGPU_NO_DISTRIBUTION(curand_poisson)
SOFTGPU_NO_DISTRIBUTION(curand_poisson4)
SOFTGPU_NO_DISTRIBUTION(curand_discrete)
SOFTGPU_NO_DISTRIBUTION(curand_discrete4)
#undef SOFTGPU_NO_DISTRIBUTION

#endif
