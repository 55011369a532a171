/*
 * softgpu/intrinsics.h - CUDA's mathematical functions beyond <cmath>, conversions and bit operations: CUDA Math API
 * Reference. Included by softgpu_prelude.h.
 *
 * The fast ones (__expf, __fdividef, ...) are as exact here as the ordinary ones; a program that depends on their
 * errors is wrong anyway. glibc declares some of these names for itself (__expf), so they are macros.
 */
#ifndef SOFTGPU_INTRINSICS_H
#define SOFTGPU_INTRINSICS_H
#pragma GCC system_header

#include "softgpu/thread.h"
#include <cfenv>

/* ---- fast versions ---- */

#define __expf    expf
#define __exp10f  exp10f
#define __logf    logf
#define __log2f   log2f
#define __log10f  log10f
#define __sinf    sinf
#define __cosf    cosf
#define __tanf    tanf
#define __sincosf sincosf
#define __powf    powf
#define __tanhf   tanhf

namespace softgpu
{

/* IEEE maxNum: a number beats a NaN. Unlike the library's, these become vector instructions; softgpu-cc names them in
 * device code. */
#define SOFTGPU_EXTREME(type)                \
    SOFTGPU_INLINE type fmax(type a, type b) \
    {                                        \
        const type larger = a > b ? a : b;   \
        return b != b ? a : larger;          \
    }                                        \
    SOFTGPU_INLINE type fmin(type a, type b) \
    {                                        \
        const type smaller = a < b ? a : b;  \
        return b != b ? a : smaller;         \
    }
SOFTGPU_EXTREME(float)
SOFTGPU_EXTREME(double)
#undef SOFTGPU_EXTREME

/* Mixed and integer arguments, as <cmath> has them. */
template <class A, class B>
SOFTGPU_INLINE auto
fmax(A a, B b) -> decltype(std::fmax(a, b))
{
    typedef decltype(std::fmax(a, b)) wide;
    return softgpu::fmax(static_cast<wide>(a), static_cast<wide>(b));
}
template <class A, class B>
SOFTGPU_INLINE auto
fmin(A a, B b) -> decltype(std::fmin(a, b))
{
    typedef decltype(std::fmin(a, b)) wide;
    return softgpu::fmin(static_cast<wide>(a), static_cast<wide>(b));
}

SOFTGPU_INLINE float
fmaxf(float a, float b)
{
    return softgpu::fmax(a, b);
}

SOFTGPU_INLINE float
fminf(float a, float b)
{
    return softgpu::fmin(a, b);
}

template <class To, class From>
inline To
same_bits(From value)
{
    static_assert(sizeof(To) == sizeof(From), "same size");
    To result;
    __builtin_memcpy(&result, &value, sizeof(result));
    return result;
}

/* Float to integer: NaN gives 0, what is out of range the nearest integer, as on a GPU; a C cast leaves that open. */
template <class To, class From>
inline To
saturate_to(From value)
{
    if (value != value)
        return 0;
    if (value <= static_cast<From>(std::numeric_limits<To>::min()))
        return std::numeric_limits<To>::min();
    if (value >= static_cast<From>(std::numeric_limits<To>::max()))
        return std::numeric_limits<To>::max();
    return static_cast<To>(value);
}

} // namespace softgpu

/* What the compiler may take for granted. */
#define __builtin_assume(condition) ((condition) ? (void)0 : __builtin_unreachable())
#define __assume(condition)         __builtin_assume(condition)

/* ---- one-line functions: SOFTGPU_FUNCTION(type, name, (parameters), expression) ---- */

#define SOFTGPU_FUNCTION(type, name, parameters, expression) \
    SOFTGPU_INLINE type name parameters                      \
    {                                                        \
        return expression;                                   \
    }

SOFTGPU_FUNCTION(float, rsqrtf, (float x), 1.0f / sqrtf(x))
SOFTGPU_FUNCTION(double, rsqrt, (double x), 1.0 / sqrt(x))
SOFTGPU_FUNCTION(float, rsqrt, (float x), 1.0f / sqrtf(x))
SOFTGPU_FUNCTION(float, rcbrtf, (float x), 1.0f / cbrtf(x))
SOFTGPU_FUNCTION(double, rcbrt, (double x), 1.0 / cbrt(x))
SOFTGPU_FUNCTION(float, rhypotf, (float x, float y), 1.0f / hypotf(x, y))
SOFTGPU_FUNCTION(double, rhypot, (double x, double y), 1.0 / hypot(x, y))
SOFTGPU_FUNCTION(float, norm3df, (float x, float y, float z), sqrtf(x *x + y * y + z * z))
SOFTGPU_FUNCTION(float, rnorm3df, (float x, float y, float z), 1.0f / sqrtf(x * x + y * y + z * z))
SOFTGPU_FUNCTION(float, norm4df, (float x, float y, float z, float w), sqrtf(x *x + y * y + z * z + w * w))
SOFTGPU_FUNCTION(float, rnorm4df, (float x, float y, float z, float w), 1.0f / sqrtf(x * x + y * y + z * z + w * w))
SOFTGPU_FUNCTION(double, norm3d, (double x, double y, double z), hypot(hypot(x, y), z))
SOFTGPU_FUNCTION(double, rnorm3d, (double x, double y, double z), 1.0 / hypot(hypot(x, y), z))
SOFTGPU_FUNCTION(double, norm4d, (double x, double y, double z, double w), hypot(hypot(x, y), hypot(z, w)))
SOFTGPU_FUNCTION(double, rnorm4d, (double x, double y, double z, double w), 1.0 / hypot(hypot(x, y), hypot(z, w)))
SOFTGPU_FUNCTION(float, fdividef, (float a, float b), a / b)
SOFTGPU_FUNCTION(float, __fdividef, (float a, float b), a / b)
SOFTGPU_FUNCTION(float, __saturatef, (float x), x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f)
SOFTGPU_FUNCTION(float, saturate, (float x), __saturatef(x))
SOFTGPU_FUNCTION(float, normcdff, (float x), 0.5f * erfcf(-x * 0.70710678118654752f))
SOFTGPU_FUNCTION(double, normcdf, (double x), 0.5 * erfc(-x * 0.70710678118654752440))
SOFTGPU_FUNCTION(float, sinpif, (float x),
                 static_cast<float>(sin(3.14159265358979323846 * fmod(static_cast<double>(x), 2.0))))
SOFTGPU_FUNCTION(float, cospif, (float x),
                 static_cast<float>(cos(3.14159265358979323846 * fmod(static_cast<double>(x), 2.0))))
SOFTGPU_FUNCTION(double, sinpi, (double x), sin(3.14159265358979323846 * fmod(x, 2.0)))
SOFTGPU_FUNCTION(double, cospi, (double x), cos(3.14159265358979323846 * fmod(x, 2.0)))

SOFTGPU_INLINE void
sincospif(float x, float *sine, float *cosine)
{
    *sine = sinpif(x);
    *cosine = cospif(x);
}

SOFTGPU_INLINE void
sincospi(double x, double *sine, double *cosine)
{
    *sine = sinpi(x);
    *cosine = cospi(x);
}

SOFTGPU_INLINE double
norm(int n, const double *x)
{
    double result = 0;
    for (int i = 0; i < n; ++i)
        result = hypot(result, x[i]);
    return result;
}

SOFTGPU_INLINE float
normf(int n, const float *x)
{
    double sum = 0;
    for (int i = 0; i < n; ++i)
        sum += static_cast<double>(x[i]) * x[i];
    return static_cast<float>(sqrt(sum));
}

SOFTGPU_FUNCTION(double, rnorm, (int n, const double *x), 1.0 / norm(n, x))
SOFTGPU_FUNCTION(float, rnormf, (int n, const float *x), 1.0f / normf(n, x))

/* exp(x * x) * erfc(x). Behind 10 by its continued fraction, where erfc has few digits or none. */
SOFTGPU_INLINE double
erfcx(double x)
{
    if (!(x > 10))
        return exp(x * x) * erfc(x);
    double fraction = x;
    for (int i = 30; i > 0; --i)
        fraction = x + 0.5 * i / fraction;
    return 0.56418958354775628695 / fraction;
}

/* The x with erfc(x) == y: Newton's steps for log(erfc(x)), which is nearly a parabola, from the side where it is
 * concave. */
SOFTGPU_INLINE double
erfcinv(double y)
{
    if (!(y > 0 && y < 2))
        return y == 0 ? HUGE_VAL : y == 2 ? -HUGE_VAL : NAN;
    const double smaller = y > 1 ? 2 - y : y;
    double x = 0;
    for (int i = 0; i < 60; ++i) {
        const double step = (log(erfcx(x) / smaller) - x * x) * erfcx(x) * 0.88622692545275801365;
        x += step;
        if (fabs(step) <= 1e-16 * x)
            break;
    }
    return y > 1 ? -x : x;
}

/* Small ones from its slope at 0, so that they keep their digits. */
SOFTGPU_INLINE double
erfinv(double y)
{
    if (fabs(y) > 0.5)
        return y > 0 ? erfcinv(1 - y) : -erfcinv(1 + y);
    double x = y * 0.88622692545275801365;
    for (int i = 0; i < 8; ++i)
        x -= (erf(x) - y) * exp(x * x) * 0.88622692545275801365;
    return x;
}

/* The modified Bessel function of order n (0 or 1): its series, which has positive terms only. */
SOFTGPU_INLINE double
softgpu_bessel_i(int n, double x)
{
    double term = n == 0 ? 1 : 0.5 * x, sum = term;
    for (int k = 1; fabs(term) > 1e-17 * fabs(sum) && k < 1000; ++k)
        sum += term *= 0.25 * x * x / (static_cast<double>(k) * (k + n));
    return sum;
}

SOFTGPU_FUNCTION(double, normcdfinv, (double p), -1.41421356237309504880 * erfcinv(2 * p))
SOFTGPU_FUNCTION(double, cyl_bessel_i0, (double x), softgpu_bessel_i(0, x))
SOFTGPU_FUNCTION(double, cyl_bessel_i1, (double x), softgpu_bessel_i(1, x))
SOFTGPU_FUNCTION(float, erfcxf, (float x), static_cast<float>(erfcx(x)))
SOFTGPU_FUNCTION(float, erfcinvf, (float y), static_cast<float>(erfcinv(y)))
SOFTGPU_FUNCTION(float, erfinvf, (float y), static_cast<float>(erfinv(y)))
SOFTGPU_FUNCTION(float, normcdfinvf, (float p), static_cast<float>(normcdfinv(p)))
SOFTGPU_FUNCTION(float, cyl_bessel_i0f, (float x), static_cast<float>(cyl_bessel_i0(x)))
SOFTGPU_FUNCTION(float, cyl_bessel_i1f, (float x), static_cast<float>(cyl_bessel_i1(x)))

/* Arithmetic in a named rounding mode. */
SOFTGPU_FUNCTION(float, __fadd_rn, (float a, float b), a + b)
SOFTGPU_FUNCTION(float, __fsub_rn, (float a, float b), a - b)
SOFTGPU_FUNCTION(float, __fdiv_rn, (float a, float b), a / b)
SOFTGPU_FUNCTION(float, __frcp_rn, (float a), 1.0f / a)
SOFTGPU_FUNCTION(float, __fsqrt_rn, (float a), sqrtf(a))
SOFTGPU_FUNCTION(float, __frsqrt_rn, (float a), static_cast<float>(1.0 / sqrt(static_cast<double>(a))))
SOFTGPU_FUNCTION(float, __fmaf_rn, (float a, float b, float c), fmaf(a, b, c))
SOFTGPU_FUNCTION(float, __fmaf_ieee_rn, (float a, float b, float c), fmaf(a, b, c))
SOFTGPU_FUNCTION(double, __dadd_rn, (double a, double b), a + b)
SOFTGPU_FUNCTION(double, __dsub_rn, (double a, double b), a - b)
SOFTGPU_FUNCTION(double, __ddiv_rn, (double a, double b), a / b)
SOFTGPU_FUNCTION(double, __drcp_rn, (double a), 1.0 / a)
SOFTGPU_FUNCTION(double, __dsqrt_rn, (double a), sqrt(a))
SOFTGPU_FUNCTION(double, __fma_rn, (double a, double b, double c), fma(a, b, c))

/* A product that must not be fused with a sum: the volatile keeps it apart under -ffp-contract=fast. */
SOFTGPU_INLINE float
__fmul_rn(float a, float b)
{
    volatile float product = a * b;
    return product;
}

SOFTGPU_INLINE double
__dmul_rn(double a, double b)
{
    volatile double product = a * b;
    return product;
}

/* Down, up and toward zero: what stands between the two changes of the CPU's mode is kept there by the volatile. */
#define SOFTGPU_ROUNDED_TO(type, name, parameters, x, y, z, expression, mode) \
    SOFTGPU_INLINE type name parameters                                       \
    {                                                                         \
        const int before = fegetround();                                      \
        volatile auto a = x;                                                  \
        volatile auto b = y;                                                  \
        volatile auto c = z;                                                  \
        fesetround(mode);                                                     \
        volatile type result = expression;                                    \
        fesetround(before);                                                   \
        (void)a, (void)b, (void)c;                                            \
        return result;                                                        \
    }
#define SOFTGPU_ROUNDED(type, name, parameters, x, y, z, expression)                  \
    SOFTGPU_ROUNDED_TO(type, name##_rd, parameters, x, y, z, expression, FE_DOWNWARD) \
    SOFTGPU_ROUNDED_TO(type, name##_ru, parameters, x, y, z, expression, FE_UPWARD)   \
    SOFTGPU_ROUNDED_TO(type, name##_rz, parameters, x, y, z, expression, FE_TOWARDZERO)
#define SOFTGPU_ROUNDED_1(type, name, from, expression) SOFTGPU_ROUNDED(type, name, (from x), x, 0, 0, expression)
#define SOFTGPU_ROUNDED_2(type, name, expression)       SOFTGPU_ROUNDED(type, name, (type x, type y), x, y, 0, expression)
#define SOFTGPU_ROUNDED_3(type, name, expression) \
    SOFTGPU_ROUNDED(type, name, (type x, type y, type z), x, y, z, expression)
SOFTGPU_ROUNDED_2(float, __fadd, a + b)
SOFTGPU_ROUNDED_2(float, __fsub, a - b)
SOFTGPU_ROUNDED_2(float, __fmul, a *b)
SOFTGPU_ROUNDED_2(float, __fdiv, a / b)
SOFTGPU_ROUNDED_1(float, __frcp, float, 1.0f / a)
SOFTGPU_ROUNDED_1(float, __fsqrt, float, sqrtf(a))
SOFTGPU_ROUNDED_3(float, __fmaf, fmaf(a, b, c))
SOFTGPU_ROUNDED_3(float, __fmaf_ieee, fmaf(a, b, c))
SOFTGPU_ROUNDED_2(double, __dadd, a + b)
SOFTGPU_ROUNDED_2(double, __dsub, a - b)
SOFTGPU_ROUNDED_2(double, __dmul, a *b)
SOFTGPU_ROUNDED_2(double, __ddiv, a / b)
SOFTGPU_ROUNDED_1(double, __drcp, double, 1.0 / a)
SOFTGPU_ROUNDED_1(double, __dsqrt, double, sqrt(a))
SOFTGPU_ROUNDED_3(double, __fma, fma(a, b, c))
SOFTGPU_ROUNDED_1(float, __int2float, int, static_cast<float>(a))
SOFTGPU_ROUNDED_1(float, __uint2float, unsigned, static_cast<float>(a))
SOFTGPU_ROUNDED_1(float, __ll2float, long long, static_cast<float>(a))
SOFTGPU_ROUNDED_1(float, __ull2float, unsigned long long, static_cast<float>(a))
SOFTGPU_ROUNDED_1(float, __double2float, double, static_cast<float>(a))
SOFTGPU_ROUNDED_1(double, __ll2double, long long, static_cast<double>(a))
SOFTGPU_ROUNDED_1(double, __ull2double, unsigned long long, static_cast<double>(a))
#undef SOFTGPU_ROUNDED_TO
#undef SOFTGPU_ROUNDED
#undef SOFTGPU_ROUNDED_1
#undef SOFTGPU_ROUNDED_2
#undef SOFTGPU_ROUNDED_3

/* ---- conversions ---- */

SOFTGPU_FUNCTION(int, __float_as_int, (float x), softgpu::same_bits<int>(x))
SOFTGPU_FUNCTION(unsigned, __float_as_uint, (float x), softgpu::same_bits<unsigned>(x))
SOFTGPU_FUNCTION(float, __int_as_float, (int x), softgpu::same_bits<float>(x))
SOFTGPU_FUNCTION(float, __uint_as_float, (unsigned x), softgpu::same_bits<float>(x))
SOFTGPU_FUNCTION(long long, __double_as_longlong, (double x), softgpu::same_bits<long long>(x))
SOFTGPU_FUNCTION(double, __longlong_as_double, (long long x), softgpu::same_bits<double>(x))
SOFTGPU_FUNCTION(int, __double2hiint, (double x), static_cast<int>(softgpu::same_bits<long long>(x) >> 32))
SOFTGPU_FUNCTION(int, __double2loint, (double x), static_cast<int>(softgpu::same_bits<long long>(x)))
SOFTGPU_FUNCTION(double, __hiloint2double, (int hi, int lo),
                 softgpu::same_bits<double>(static_cast<unsigned long long>(static_cast<unsigned>(hi)) << 32 |
                                            static_cast<unsigned>(lo)))

#define SOFTGPU_TO_INTEGER(from, suffix, to, nearest, down, up, towards_zero)                      \
    SOFTGPU_FUNCTION(to, __##from##2##suffix##_rn, (from x), softgpu::saturate_to<to>(nearest(x))) \
    SOFTGPU_FUNCTION(to, __##from##2##suffix##_rd, (from x), softgpu::saturate_to<to>(down(x)))    \
    SOFTGPU_FUNCTION(to, __##from##2##suffix##_ru, (from x), softgpu::saturate_to<to>(up(x)))      \
    SOFTGPU_FUNCTION(to, __##from##2##suffix##_rz, (from x), softgpu::saturate_to<to>(towards_zero(x)))
typedef unsigned int softgpu_uint;
typedef long long softgpu_ll;
typedef unsigned long long softgpu_ull;
SOFTGPU_TO_INTEGER(float, int, int, rintf, floorf, ceilf, truncf)
SOFTGPU_TO_INTEGER(float, uint, softgpu_uint, rintf, floorf, ceilf, truncf)
SOFTGPU_TO_INTEGER(float, ll, softgpu_ll, rintf, floorf, ceilf, truncf)
SOFTGPU_TO_INTEGER(float, ull, softgpu_ull, rintf, floorf, ceilf, truncf)
SOFTGPU_TO_INTEGER(double, int, int, rint, floor, ceil, trunc)
SOFTGPU_TO_INTEGER(double, uint, softgpu_uint, rint, floor, ceil, trunc)
SOFTGPU_TO_INTEGER(double, ll, softgpu_ll, rint, floor, ceil, trunc)
SOFTGPU_TO_INTEGER(double, ull, softgpu_ull, rint, floor, ceil, trunc)
#undef SOFTGPU_TO_INTEGER

SOFTGPU_FUNCTION(float, __int2float_rn, (int x), static_cast<float>(x))
SOFTGPU_FUNCTION(float, __uint2float_rn, (unsigned x), static_cast<float>(x))
SOFTGPU_FUNCTION(float, __ll2float_rn, (long long x), static_cast<float>(x))
SOFTGPU_FUNCTION(float, __ull2float_rn, (unsigned long long x), static_cast<float>(x))
SOFTGPU_FUNCTION(double, __int2double_rn, (int x), static_cast<double>(x))
SOFTGPU_FUNCTION(double, __uint2double_rn, (unsigned x), static_cast<double>(x))
SOFTGPU_FUNCTION(double, __ll2double_rn, (long long x), static_cast<double>(x))
SOFTGPU_FUNCTION(double, __ull2double_rn, (unsigned long long x), static_cast<double>(x))
SOFTGPU_FUNCTION(float, __double2float_rn, (double x), static_cast<float>(x))

/* ---- bits and integers ---- */

SOFTGPU_FUNCTION(int, __popc, (unsigned x), __builtin_popcount(x))
SOFTGPU_FUNCTION(int, __popcll, (unsigned long long x), __builtin_popcountll(x))
SOFTGPU_FUNCTION(int, __clz, (int x), x != 0 ? __builtin_clz(static_cast<unsigned>(x)) : 32)
SOFTGPU_FUNCTION(int, __clzll, (long long x), x != 0 ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64)
SOFTGPU_FUNCTION(int, __ffs, (int x), __builtin_ffs(x))
SOFTGPU_FUNCTION(int, __ffsll, (long long x), __builtin_ffsll(x))
SOFTGPU_FUNCTION(int, __mul24, (int a, int b), static_cast<int>(static_cast<long long>(a << 8 >> 8) * (b << 8 >> 8)))
SOFTGPU_FUNCTION(unsigned, __umul24, (unsigned a, unsigned b), (a & 0xffffffu) * (b & 0xffffffu))
SOFTGPU_FUNCTION(int, __mulhi, (int a, int b), static_cast<int>(static_cast<long long>(a) * b >> 32))
SOFTGPU_FUNCTION(unsigned, __umulhi, (unsigned a, unsigned b),
                 static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32))
SOFTGPU_FUNCTION(long long, __mul64hi, (long long a, long long b),
                 static_cast<long long>(static_cast<__int128>(a) * b >> 64))
SOFTGPU_FUNCTION(unsigned long long, __umul64hi, (unsigned long long a, unsigned long long b),
                 static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64))
SOFTGPU_FUNCTION(int, __hadd, (int a, int b), static_cast<int>((static_cast<long long>(a) + b) >> 1))
SOFTGPU_FUNCTION(int, __rhadd, (int a, int b), static_cast<int>((static_cast<long long>(a) + b + 1) >> 1))
SOFTGPU_FUNCTION(unsigned, __uhadd, (unsigned a, unsigned b),
                 static_cast<unsigned>((static_cast<unsigned long long>(a) + b) >> 1))
SOFTGPU_FUNCTION(unsigned, __sad, (int a, int b, unsigned c),
                 c + static_cast<unsigned>(a > b ? static_cast<long long>(a) - b : static_cast<long long>(b) - a))
SOFTGPU_FUNCTION(unsigned, __usad, (unsigned a, unsigned b, unsigned c), c + (a > b ? a - b : b - a))
SOFTGPU_FUNCTION(unsigned, __funnelshift_l, (unsigned lo, unsigned hi, unsigned shift),
                 static_cast<unsigned>((static_cast<unsigned long long>(hi) << 32 | lo) << (shift & 31) >> 32))
SOFTGPU_FUNCTION(unsigned, __funnelshift_r, (unsigned lo, unsigned hi, unsigned shift),
                 static_cast<unsigned>((static_cast<unsigned long long>(hi) << 32 | lo) >> (shift & 31)))

SOFTGPU_INLINE unsigned
__brev(unsigned x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}

SOFTGPU_FUNCTION(unsigned long long, __brevll, (unsigned long long x),
                 static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
                     __brev(static_cast<unsigned>(x >> 32)))

/* Each nibble of `selector` picks one of the eight bytes of a and b; its highest bit spreads the byte's sign. */
SOFTGPU_INLINE unsigned
__byte_perm(unsigned a, unsigned b, unsigned selector)
{
    const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned pick = selector >> 4 * i & 0xf;
        unsigned byte = static_cast<unsigned>(bytes >> 8 * (pick & 7)) & 0xff;
        if ((pick & 8) != 0)
            byte = (byte & 0x80) != 0 ? 0xff : 0;
        result |= byte << 8 * i;
    }
    return result;
}

SOFTGPU_INLINE int
__dp4a(int a, int b, int c)
{
    for (int i = 0; i < 4; ++i)
        c += static_cast<signed char>(a >> 8 * i) * static_cast<signed char>(b >> 8 * i);
    return c;
}

SOFTGPU_INLINE unsigned
__dp4a(unsigned a, unsigned b, unsigned c)
{
    for (int i = 0; i < 4; ++i)
        c += (a >> 8 * i & 0xff) * (b >> 8 * i & 0xff);
    return c;
}

SOFTGPU_FUNCTION(unsigned, __urhadd, (unsigned a, unsigned b),
                 static_cast<unsigned>((static_cast<unsigned long long>(a) + b + 1) >> 1))

/* Two 16-bit numbers by the lower or the higher two bytes. */
SOFTGPU_FUNCTION(int, __dp2a_lo, (int a, int b, int c),
                 c + static_cast<short>(a) * static_cast<signed char>(b) + (a >> 16) * static_cast<signed char>(b >> 8))
SOFTGPU_FUNCTION(int, __dp2a_hi, (int a, int b, int c), __dp2a_lo(a, b >> 16, c))
SOFTGPU_FUNCTION(unsigned, __dp2a_lo, (unsigned a, unsigned b, unsigned c),
                 c + (a & 0xffff) * (b & 0xff) + (a >> 16) * (b >> 8 & 0xff))
SOFTGPU_FUNCTION(unsigned, __dp2a_hi, (unsigned a, unsigned b, unsigned c), __dp2a_lo(a, b >> 16, c))

/* The n-th bit that is set at `base` or above it, below it for a negative n; -1 if there are fewer. */
SOFTGPU_INLINE unsigned
__fns(unsigned mask, unsigned base, int n)
{
    if (n == 0)
        return (mask >> base & 1) != 0 ? base : ~0u;
    for (int at = static_cast<int>(base), left = n; at >= 0 && at<32; at += n> 0 ? 1 : -1) {
        if ((mask >> at & 1) != 0 && (left += n > 0 ? -1 : 1) == 0)
            return static_cast<unsigned>(at);
    }
    return ~0u;
}

/* Two numbers of 16 bits in a word, or four of 8. */
#define SOFTGPU_VIDEO_PARTS(name, signed_type, unsigned_type, bits, expression)                         \
    SOFTGPU_INLINE unsigned name(unsigned x, unsigned y)                                                \
    {                                                                                                   \
        unsigned result = 0;                                                                            \
        for (int i = 0; i < 32; i += bits) {                                                            \
            const int a = static_cast<signed_type>(x >> i), b = static_cast<signed_type>(y >> i);       \
            const int ua = static_cast<unsigned_type>(x >> i), ub = static_cast<unsigned_type>(y >> i); \
            (void)a, (void)b, (void)ua, (void)ub;                                                       \
            result |= static_cast<unsigned>(static_cast<unsigned_type>(expression)) << i;               \
        }                                                                                               \
        return result;                                                                                  \
    }
#define SOFTGPU_VIDEO(name, expression)                                 \
    SOFTGPU_VIDEO_PARTS(name##2, short, unsigned short, 16, expression) \
    SOFTGPU_VIDEO_PARTS(name##4, signed char, unsigned char, 8, expression)
SOFTGPU_VIDEO(__vadd, ua + ub)
SOFTGPU_VIDEO(__vsub, ua - ub)
SOFTGPU_VIDEO(__vmaxs, a < b ? b : a)
SOFTGPU_VIDEO(__vmins, b < a ? b : a)
SOFTGPU_VIDEO(__vmaxu, ua < ub ? ub : ua)
SOFTGPU_VIDEO(__vminu, ub < ua ? ub : ua)
SOFTGPU_VIDEO(__vavgu, (ua + ub + 1) >> 1)
SOFTGPU_VIDEO(__vabsdiffu, ua < ub ? ub - ua : ua - ub)
SOFTGPU_VIDEO(__vcmpeq, ua == ub ? -1 : 0)
SOFTGPU_VIDEO(__vcmpgts, a > b ? -1 : 0)
SOFTGPU_VIDEO(__vcmpgtu, ua > ub ? -1 : 0)
#undef SOFTGPU_VIDEO
#undef SOFTGPU_VIDEO_PARTS

/* ---- min and max, which CUDA has in the global namespace ---- */

#define SOFTGPU_MIN_MAX(type)                                    \
    SOFTGPU_FUNCTION(type, min, (type a, type b), b < a ? b : a) \
    SOFTGPU_FUNCTION(type, max, (type a, type b), a < b ? b : a)
SOFTGPU_MIN_MAX(int)
SOFTGPU_MIN_MAX(unsigned)
SOFTGPU_MIN_MAX(long)
SOFTGPU_MIN_MAX(unsigned long)
SOFTGPU_MIN_MAX(long long)
SOFTGPU_MIN_MAX(unsigned long long)
#undef SOFTGPU_MIN_MAX

#define SOFTGPU_MIN_MAX_MIXED(result, a_type, b_type)                                                        \
    SOFTGPU_FUNCTION(result, min, (a_type a, b_type b), min(static_cast<result>(a), static_cast<result>(b))) \
    SOFTGPU_FUNCTION(result, max, (a_type a, b_type b), max(static_cast<result>(a), static_cast<result>(b)))
SOFTGPU_MIN_MAX_MIXED(unsigned, int, unsigned)
SOFTGPU_MIN_MAX_MIXED(unsigned, unsigned, int)
SOFTGPU_MIN_MAX_MIXED(unsigned long, long, unsigned long)
SOFTGPU_MIN_MAX_MIXED(unsigned long, unsigned long, long)
SOFTGPU_MIN_MAX_MIXED(unsigned long long, long long, unsigned long long)
SOFTGPU_MIN_MAX_MIXED(unsigned long long, unsigned long long, long long)
#undef SOFTGPU_MIN_MAX_MIXED

#define SOFTGPU_MIN_MAX_FLOAT(result, a_type, b_type)                                                                  \
    SOFTGPU_FUNCTION(result, min, (a_type a, b_type b), softgpu::fmin(static_cast<result>(a), static_cast<result>(b))) \
    SOFTGPU_FUNCTION(result, max, (a_type a, b_type b), softgpu::fmax(static_cast<result>(a), static_cast<result>(b)))
SOFTGPU_MIN_MAX_FLOAT(float, float, float)
SOFTGPU_MIN_MAX_FLOAT(double, double, double)
SOFTGPU_MIN_MAX_FLOAT(double, float, double)
SOFTGPU_MIN_MAX_FLOAT(double, double, float)
#undef SOFTGPU_MIN_MAX_FLOAT

SOFTGPU_FUNCTION(unsigned, umin, (unsigned a, unsigned b), b < a ? b : a)
SOFTGPU_FUNCTION(unsigned, umax, (unsigned a, unsigned b), a < b ? b : a)
SOFTGPU_FUNCTION(long long, llmin, (long long a, long long b), b < a ? b : a)
SOFTGPU_FUNCTION(long long, llmax, (long long a, long long b), a < b ? b : a)
#undef SOFTGPU_FUNCTION

#endif
