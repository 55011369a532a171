// flags: -std=c++20 --expt-relaxed-constexpr
// Arithmetic of numbers of all kinds, a kernel each: bits, rounding modes, integers, functions with and without std::,
// norms, half precision, bfloat16, pairs and quadruples of integers.
#include <cmath>
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <initializer_list>

__device__ float
quake_rsqrt(float x)
{
    int i = __float_as_int(x);
    i = 0x5f3759df - (i >> 1);
    float y = __int_as_float(i);
    y = y * (1.5f - 0.5f * x * y * y);
    return y * (1.5f - 0.5f * x * y * y);
}
__global__ void
bits(double *out, float one, double two)
{
    out[0] = __float_as_uint(-one) >> 31;
    out[1] = __uint_as_float(0x40490fdbu);
    out[2] = __double2hiint(two) == 0x40000000 && __double2loint(two) == 0;
    out[3] = __hiloint2double(0x3ff80000, 0);
    out[4] = __longlong_as_double(__double_as_longlong(two) + (1ll << 52));
    out[5] = fabsf(quake_rsqrt(4 * one) - 0.5f) < 1e-4f;
    out[6] = nextafterf(one, 2.0f) > one && nextafter(two, 0.0) < two;
    out[7] = signbit(-0.0f) && !isfinite(__int_as_float(0x7f800000)) && isnan(__int_as_float(0x7fffffff));
    out[8] = ilogbf(8 * one) + ldexp(two, 3) + scalbnf(one, 2);
    int exponent;
    out[9] = frexp(two * 3, &exponent) * 100 + exponent;
    float whole;
    out[10] = modff(3.25f * one, &whole) + whole * 10;
}

__global__ void
rounding(double *out, float x, double y)
{
    out[0] = __fma_rn(y, y, -1.0) + __fmaf_rn(x, x, 1.0f);
    out[1] = __fadd_rn(x, 1.0f) * __fmul_rn(x, 2.0f) - __fsub_rn(x, 0.5f);
    out[2] = __dadd_rn(y, 1.0) + __dmul_rn(y, y) + __ddiv_rn(y, 4.0) + __dsqrt_rn(y * y);
    out[3] = __fdividef(x, 2.0f) + __fdiv_rn(x, 4.0f) + __frcp_rn(x) + __fsqrt_rn(x * x) + __frsqrt_rn(x * x);
    out[4] = __float2int_rz(-x - 0.75f) + 10 * __float2int_rn(x + 0.5f) + 100 * __float2int_ru(x + 0.25f) +
             1000 * __float2int_rd(x + 0.75f);
    out[5] = __double2int_rn(y + 0.5) + __double2uint_rz(y + 0.9) + __double2ll_rd(-y - 0.1);
    out[6] = __int2float_rn(7) + __uint2double_rn(8u) + __ll2float_rn(9ll) + __double2float_rn(0.5);
    out[7] = fabsf(__expf(1.0f) - 2.7182818f) < 1e-5f && fabsf(__logf(x) - 0.6931472f) < 1e-5f &&
             fabsf(__powf(x, 3.0f) - 8) < 1e-4f && fabsf(__sinf(x) - sinf(x)) < 1e-5f && __saturatef(x) == 1;
    out[8] = rintf(2.5f) + nearbyint(3.5) + roundf(2.5f) + truncf(-2.75f) + ceil(y - 0.5) + llrint(y + 0.25);
}

__global__ void
integers(long long *out, int three)
{
    out[0] = __hadd(three, 6) + 100 * __rhadd(three, 6) + 10000 * __uhadd(3u, 8u);
    out[1] = __sad(-three, 4, 100u) + __usad(9u, 2u, 1000u);
    out[2] = __mul24(three, -5) + __umul24(7u, 6u);
    out[3] = __mulhi(0x40000000, three * 4) + 10 * __umulhi(0x80000000u, 6u);
    out[4] = __mul64hi(1ll << 62, 12ll) + __umul64hi(1ull << 63, 10ull);
    out[5] = __dp4a(0x01020304, 0x01010101, 5) + __dp4a(0xffu, 0x02u, 1u);
    out[6] = __dp2a_lo(0x00020003, 0x00000102, 0);
    out[7] = abs(-three) + llabs(-5ll) + labs(-6l);
    out[8] = __ffs(0) + __clz(0) + __popcll(0xffff0000ffffull) + __ffsll(1ll << 40);
    out[9] = __dp2a_hi(-65533, 0x05fe0000, 1) + int(__urhadd(4u, 7u));
}

__global__ void
functions(float *o, float x, double y)
{
    float s, c;
    sincosf(x, &s, &c);
    o[0] = s * s + c * c + erff(0.0f) + normcdff(0.0f);
    o[1] = fmaxf(x, 2.0f) + fminf(x, -1.0f) + max(3, 4) + min(2u, 1u) + std::max(1.0f, x) + fabsf(-x) + abs(-3);
    o[2] = __powf(2.0f, 3.0f) + powf(2.0f, 2.0f) + pow(y, 2.0) + exp2f(3.0f) + cbrtf(27.0f) + rsqrt(4.0) + rcbrtf(8.0f);
    o[3] = isnan(nanf("")) + isinf(INFINITY) + isfinite(x) + signbit(-x) + __isnanf(x);
    o[4] = floorf(1.5f) + ceil(1.5) + roundf(2.5f) + rintf(2.5f) + truncf(-1.5f) + fmodf(5.5f, 2.0f) +
           remainderf(5.0f, 3.0f);
    o[5] = __fmul_rn(2.0f, 3.0f) + __fadd_rn(1.0f, 1.0f) + __frcp_rn(4.0f) + __fsqrt_rn(9.0f) + __saturatef(3.0f) +
           __fmaf_rn(1, 2, 3);
    o[6] = lgammaf(3.0f) + tgammaf(4.0f) + log1pf(0.0f) + expm1f(0.0f) + log2f(8.0f) + __logf(1.0f) + logf(1.0f) +
           log10f(100.0f);
    o[7] = hypotf(3, 4) + copysignf(1.0f, -2.0f) + fdimf(3.0f, 1.0f) + norm3df(2, 3, 6) + sinpif(0.5f) +
           ldexpf(1.0f, 3) + __tanf(0.0f);
}

__global__ void
norms(double *out)
{
    out[0] = norm3d(2.0, 3.0, 6.0) - 7;
    out[1] = norm3df(1.0f, 2.0f, 2.0f) - 3;
    out[2] = rnorm3df(1.0f, 2.0f, 2.0f) * 3 - 1;
    out[3] = norm4d(1.0, 1.0, 1.0, 1.0) - 2;
    const float v[3] = {2, 4, 4};
    out[4] = normf(3, v) - 6;
    out[5] = rhypot(3.0, 4.0) - 0.2;
    out[6] = rsqrt(4.0) + rsqrtf(16.0f) - 0.75;
    out[7] = sinpi(0.5) + cospif(1.0f);
    out[8] = erfinv(0.0) + erfcinvf(1.0f) + normcdf(0.0) - 0.5;
    out[9] = rcbrt(27.0) * 3 - 1;
    float s;
    double c;
    float unused_cos;
    double unused_sin;
    sincospif(0.5f, &s, &unused_cos);
    sincospi(1.0, &unused_sin, &c);
    out[10] = s + c;
    out[11] = cyl_bessel_i0f(0.0f) - 1 + j0(0.0) - 1;
    out[12] = exp10(2.0) - 100 + exp10f(1.0f) - 10;
    out[13] = normcdfinv(0.5) + erfcx(0.0) - 1;
    out[15] = normcdfinv(0.975) - 1.959963984540054 + erfcinv(1e-20) - 6.6015806223551425;
    out[16] = erfinv(0.5) - 0.4769362762044699 + cyl_bessel_i1(1.0) - 0.5651591039924850;
    out[17] = erfcx(20.0) - 0.028174348741193;
    out[14] = fdimf(5.0f, 3.0f) - 2 + max(1, 1) - min(2u, 1u) + fmaxf(1, 0) - 1;
}

__global__ void
halves(float *out, const __half *in)
{
    const __half a = in[0], b = in[1], zero = __float2half(0.0f);
    out[0] = __half2float(__hfma(a, b, __hsub(a, b)));
    out[1] = __hlt(a, b) + 2 * __hge(a, b) + 4 * __hisnan(__hdiv(zero, zero)) + 8 * (__hisinf(__hdiv(a, zero)) != 0);
    out[2] = __half2float(__habs(__hneg(a))) + __half2float(hsqrt(__hmul(b, b)));
    out[3] = __half_as_ushort(__float2half_rn(1.0f)) + __half2float(__ushort_as_half(0x4000));
    out[4] = __half2int_rn(__float2half(2.5f)) + 10 * __half2int_rz(__float2half(-2.75f)) +
             100 * __half2uint_ru(__float2half(3.25f));
    const half2 pair = *reinterpret_cast<const half2 *>(in);
    const float2 f = __half22float2(__hmul2(pair, __lowhigh2highlow(pair)));
    out[5] = f.x + f.y;
    const __half m = __hmax(a, b), n = __hmin(a, b);
    out[6] = float(m) - float(n);
    out[7] = __half2float(hfloor(__float2half(-1.5f))) + __half2float(hceil(__float2half(1.25f)));
    out[8] = a > b ? 1 : a == b ? 2 : 3;
    out[9] =
        __hgt(a, b) + 2 * __hbeq2(__halves2half2(a, b), pair) + __high2float(h2exp2(__floats2half2_rn(0.0f, 3.0f)));
}

__global__ void
bfloats(float *out)
{
    const __nv_bfloat162 a = __floats2bfloat162_rn(1.5f, -2.0f), b = __float2bfloat162_rn(3.0f);
    const __nv_bfloat162 r = __hfma2(a, b, __hadd2(a, a));
    out[0] = __low2float(r);
    out[1] = __high2float(r);
    const __nv_bfloat162 m = __hmax2(a, __hneg2(a));
    out[2] = __bfloat162float(m.x) + __bfloat162float(m.y);
    out[3] = __hgt(a.x, a.y) + 2 * __heq(a.x, a.x) + 4 * __hlt(b.x, a.x);
    __nv_bfloat16 s = a.x;
    s += b.x;
    s = s * __float2bfloat16(2.0f) - __nv_bfloat16(1.0f);
    out[4] = s;
    out[5] = __bfloat162float(hsqrt(__float2bfloat16_rn(16.0f))) + __bfloat162float(hexp2(b.x));
    out[6] = __bfloat16_as_ushort(__float2bfloat16(1.0f));
    out[7] = __bfloat162int_rz(__float2bfloat16(-3.75f)) + __bfloat162float(__ushort_as_bfloat16(0x4000));
    out[8] = __bfloat162float(__float2bfloat16(1.00390625f)) == 1.0f;
}

__global__ void
words(unsigned *words)
{
    words[0] = __vadd4(0x01ff7f80u, 0x01010101u);
    words[1] = __vsub2(0x00000005u, 0x00010003u);
    words[2] = __vmaxs4(0x7f80ff01u, 0x00000000u);
    words[3] = __vminu2(0xffff0003u, 0x00010004u);
    words[4] = __vabsdiffu4(0x05000a00u, 0x02010b00u);
    words[5] = __vcmpeq4(0x01020304u, 0x01000300u);
    words[6] = __vavgu4(0x01020304u, 0x01030304u);
    words[7] = __fns(0xf0f0u, 4, 3);
    words[8] = __fns(0xf0f0u, 9, -1);
    words[9] = __fns(0xf0u, 0, 5);
    words[10] = __vcmpgts2(0x80000001u, 0x00000000u);
    words[11] = __vcmpgtu2(0x80000001u, 0x00000000u);
}

static int wrong;

/* One thread writes them. */
template <class T, class... Arguments>
static void
expect(const char *name, void (*kernel)(T *, Arguments...), std::initializer_list<double> wanted, double within,
       Arguments... arguments)
{
    T *out = managed(wanted.size() * sizeof(T));
    kernel<<<1, 1>>>(out, arguments...);
    wrong += cudaDeviceSynchronize() != cudaSuccess;
    for (size_t i = 0; i < wanted.size(); ++i)
        if (!(std::fabs(static_cast<double>(out[i]) - wanted.begin()[i]) <= within))
            wrong += printf("%s: number %zu is %.9g\n", name, i, static_cast<double>(out[i]));
}

int
main()
{
    __half *half = managed(4);
    half[0] = __float2half(2.5f), half[1] = __float2half(4.0f);
    expect("bits", bits, {1, 3.1415927410125732, 1, 1.5, 4, 1, 1, 1, 23, 78, 30.25}, 0, 1.0f, 2.0);
    expect("rounding", rounding, {8, 10.5, 9.5, 4.5, 2318, 1, 24.5, 1, 11}, 0, 2.0f, 2.0);
    expect("integers", integers, {50504, 1114, 27, 33, 8, 526, 8, 14, 105, -4}, 0, 3);
    expect("functions", functions, {1.5, 11, 33, 4, 7.5, 17.25, 11.6931472, 22}, 1e-4, 1.0f, 3.0);
    expect("norms", norms, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 2e-6);
    expect("halves", halves, {8.5, 13, 6.5, 15362, 382, 20, 1.5, 0, 3, 10}, 0, static_cast<const __half *>(half));
    expect("bfloats", bfloats, {7.5, -10, 3.5, 3, 8, 12, 16256, -1, 1}, 0);
    expect("words", words,
           {0x02008081, 0xffff0002, 0x7f000001, 0x00010003, 0x03010100, 0xff00ff00, 0x01030304, 6, 7, 0xffffffff,
            0x0000ffff, 0xffffffff},
           0);
    return wrong != 0;
}
