// flags: -std=c++20 --expt-relaxed-constexpr
// Arithmetic of numbers of all kinds: bits, integers, functions with and without std::, norms, half precision,
// bfloat16, 8 bits, pairs and quadruples of integers, complex numbers, conversions.
#include <climits>
#include <cstdint>
#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

__device__ float
quake_rsqrt(float x)
{
    int i = __float_as_int(x);
    i = 0x5f3759df - (i >> 1);
    float y = __int_as_float(i);
    y = y * (1.5f - 0.5f * x * y * y);
    return y * (1.5f - 0.5f * x * y * y);
}

FEATURE(bits_of_floats)
{
    float one = 1;
    double two = 2;
    gives<double>({1, 3.1415927410125732, 1, 1.5, 4, 1, 1, 1, 23, 78, 30.25}, 0, [=] __device__(double *out) {
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
    });
}

FEATURE(rounding)
{
    float x = 2;
    double y = 2;
    gives<double>({4.5, 1, 8.5, 1, 11}, 0, [=] __device__(double *out) {
        out[0] = __fdividef(x, 2.0f) + __fdiv_rn(x, 4.0f) + __frcp_rn(x) + __fsqrt_rn(x * x) + __frsqrt_rn(x * x);
        out[1] = __double2int_rn(y + 0.5) + __double2uint_rz(y + 0.9) + __double2ll_rd(-y - 0.1);
        out[2] = __uint2double_rn(8u) + __double2float_rn(0.5);
        out[3] = fabsf(__expf(1.0f) - 2.7182818f) < 1e-5f && fabsf(__logf(x) - 0.6931472f) < 1e-5f &&
                 fabsf(__powf(x, 3.0f) - 8) < 1e-4f && fabsf(__sinf(x) - sinf(x)) < 1e-5f && __saturatef(x) == 1;
        out[4] = rintf(2.5f) + nearbyint(3.5) + roundf(2.5f) + truncf(-2.75f) + ceil(y - 0.5) + llrint(y + 0.25);
    });
}

FEATURE(integers)
{
    int three = 3;
    gives<long long>({50504, 1114, 27, 33, 8, 526, 8, 14, 105, -4}, 0, [=] __device__(long long *out) {
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
    });
}

FEATURE(functions)
{
    float x = 1;
    double y = 3;
    gives<float>({1.5, 11, 33, 4, 7.5, 11.6931472, 22}, 1e-4, [=] __device__(float *o) {
        float s, c;
        sincosf(x, &s, &c);
        o[0] = s * s + c * c + erff(0.0f) + normcdff(0.0f);
        o[1] = fmaxf(x, 2.0f) + fminf(x, -1.0f) + max(3, 4) + min(2u, 1u) + std::max(1.0f, x) + fabsf(-x) + abs(-3);
        o[2] = __powf(2.0f, 3.0f) + powf(2.0f, 2.0f) + pow(y, 2.0) + exp2f(3.0f) + cbrtf(27.0f) + rsqrt(4.0) +
               rcbrtf(8.0f);
        o[3] = isnan(nanf("")) + isinf(INFINITY) + isfinite(x) + signbit(-x) + __isnanf(x);
        o[4] = floorf(1.5f) + ceil(1.5) + roundf(2.5f) + rintf(2.5f) + truncf(-1.5f) + fmodf(5.5f, 2.0f) +
               remainderf(5.0f, 3.0f);
        o[5] = lgammaf(3.0f) + tgammaf(4.0f) + log1pf(0.0f) + expm1f(0.0f) + log2f(8.0f) + __logf(1.0f) + logf(1.0f) +
               log10f(100.0f);
        o[6] = hypotf(3, 4) + copysignf(1.0f, -2.0f) + fdimf(3.0f, 1.0f) + norm3df(2, 3, 6) + sinpif(0.5f) +
               ldexpf(1.0f, 3) + __tanf(0.0f);
    });
}

FEATURE(norms_and_special_functions)
{
    gives<double>({7, 3, 1, 2, 6, 0.2, 0.75, 0, 0.5, 1, 0, 2, 110, 1, 3, 1.959963984540054 + 6.6015806223551425,
                   0.4769362762044699 + 0.5651591039924850, 0.028174348741193},
                  2e-6, [=] __device__(double *out) {
                      const float v[3] = {2, 4, 4};
                      float s, unused_cos;
                      double c, unused_sin;
                      out[0] = norm3d(2.0, 3.0, 6.0);
                      out[1] = norm3df(1.0f, 2.0f, 2.0f);
                      out[2] = rnorm3df(1.0f, 2.0f, 2.0f) * 3;
                      out[3] = norm4d(1.0, 1.0, 1.0, 1.0);
                      out[4] = normf(3, v);
                      out[5] = rhypot(3.0, 4.0);
                      out[6] = rsqrt(4.0) + rsqrtf(16.0f);
                      out[7] = sinpi(0.5) + cospif(1.0f);
                      out[8] = erfinv(0.0) + erfcinvf(1.0f) + normcdf(0.0);
                      out[9] = rcbrt(27.0) * 3;
                      sincospif(0.5f, &s, &unused_cos);
                      sincospi(1.0, &unused_sin, &c);
                      out[10] = s + c;
                      out[11] = cyl_bessel_i0f(0.0f) + j0(0.0);
                      out[12] = exp10(2.0) + exp10f(1.0f);
                      out[13] = normcdfinv(0.5) + erfcx(0.0);
                      out[14] = fdimf(5.0f, 3.0f) + max(1, 1) - min(2u, 1u) + fmaxf(1, 0);
                      out[15] = normcdfinv(0.975) + erfcinv(1e-20);
                      out[16] = erfinv(0.5) + cyl_bessel_i1(1.0);
                      out[17] = erfcx(20.0);
                  });
}

FEATURE(halves)
{
    __half *in = managed(4);
    in[0] = __float2half(2.5f), in[1] = __float2half(4.0f);
    gives<float>({8.5, 13, 6.5, 15362, 382, 20, 1.5, 0, 3, 10}, 0, [=] __device__(float *out) {
        const __half a = in[0], b = in[1], zero = __float2half(0.0f);
        out[0] = __half2float(__hfma(a, b, __hsub(a, b)));
        out[1] =
            __hlt(a, b) + 2 * __hge(a, b) + 4 * __hisnan(__hdiv(zero, zero)) + 8 * (__hisinf(__hdiv(a, zero)) != 0);
        out[2] = __half2float(__habs(__hneg(a))) + __half2float(hsqrt(__hmul(b, b)));
        out[3] = __half_as_ushort(__float2half_rn(1.0f)) + __half2float(__ushort_as_half(0x4000));
        out[4] = __half2int_rn(__float2half(2.5f)) + 10 * __half2int_rz(__float2half(-2.75f)) +
                 100 * __half2uint_ru(__float2half(3.25f));
        const half2 pair = *reinterpret_cast<const half2 *>(in);
        const float2 f = __half22float2(__hmul2(pair, __lowhigh2highlow(pair)));
        out[5] = f.x + f.y;
        out[6] = float(__hmax(a, b)) - float(__hmin(a, b));
        out[7] = __half2float(hfloor(__float2half(-1.5f))) + __half2float(hceil(__float2half(1.25f)));
        out[8] = a > b ? 1 : a == b ? 2 : 3;
        out[9] =
            __hgt(a, b) + 2 * __hbeq2(__halves2half2(a, b), pair) + __high2float(h2exp2(__floats2half2_rn(0.0f, 3.0f)));
    });
}

FEATURE(bfloats)
{
    gives<float>({7.5, -10, 3.5, 3, 8, 12, 16256, -1, 1}, 0, [] __device__(float *out) {
        const __nv_bfloat162 a = __floats2bfloat162_rn(1.5f, -2.0f), b = __float2bfloat162_rn(3.0f);
        const __nv_bfloat162 r = __hfma2(a, b, __hadd2(a, a)), m = __hmax2(a, __hneg2(a));
        out[0] = __low2float(r);
        out[1] = __high2float(r);
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
    });
}

FEATURE(numbers_of_8_bits)
{
    float one = 1;
    gives<float>({1, 1, 448, 1024, -0.40625f, 448, 448, -1.5f, 1}, 0, [=] __device__(float *out) {
        const float x[] = {1.0625f * one, 1000 * one, -0.40625f * one, 448 * one};
        for (int i = 0, at = 0; i < 4; ++i) {
            out[at++] = static_cast<float>(__nv_fp8_e4m3(x[i]));
            if (i != 2)
                out[at++] = static_cast<float>(__nv_fp8_e5m2(x[i]));
        }
        const __nv_fp8x2_e4m3 pair(make_float2(1.5f, -3.0f));
        const float2 back = static_cast<float2>(pair);
        out[7] = back.x + back.y;
        const float between = static_cast<float>(__nv_fp8_e5m2(x[2])); /* halfway between two */
        out[8] = between == -0.4375f || between == -0.375f;
    });
}

FEATURE(pairs_and_quadruples)
{
    gives<unsigned>({0x02008081, 0xffff0002, 0x7f000001, 0x00010003, 0x03010100, 0xff00ff00, 0x01030304, 6, 7,
                     0xffffffff, 0x0000ffff, 0xffffffff},
                    0, [] __device__(unsigned *words) {
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
                    });
}

FEATURE(complex_numbers)
{
    gives<float>({8, 0, -1}, 1e-4, [] __device__(float *out) {
        for (int k = 0; k < 4; k += 3) { /* places of a spectrum of ones */
            cuFloatComplex sum = make_cuFloatComplex(0, 0);
            for (int i = 0; i < 8; ++i) {
                float s, c;
                __sincosf(-2.0f * 3.14159265f * i * k / 8, &s, &c);
                sum = cuCaddf(sum, cuCmulf(make_cuFloatComplex(1, 0), make_cuComplex(c, s)));
            }
            out[k / 3] = k == 0 ? cuCrealf(sum) : cuCabsf(sum);
        }
        const cuDoubleComplex i = make_cuDoubleComplex(0, 1);
        out[2] = cuCreal(cuCmul(i, i));
    });
}

// Conversions to integers are held to the range of the type, and NaN gives 0: by casts of every form and declarations.
template <class T>
__global__ void
convert(const float *x, const double *d, T *out)
{
    const int i = threadIdx.x;
    T *o = out + i * 10;
    o[0] = (int)x[i];
    o[1] = int(x[i]);
    o[2] = static_cast<int>(d[i]);
    int one = x[i] * 1.0f, two = d[i] + 0.0;
    o[3] = one;
    o[4] = two;
    o[5] = (T)(float)(unsigned)x[i] == 0;
    o[6] = static_cast<T>(x[i]);
    o[7] = (unsigned char)x[i];
    o[8] = (int64_t)x[i] == LLONG_MAX;
    o[9] = T(x[i]) | (int)-0.5;
}

FEATURE(conversions_are_held_to_the_range)
{
    const float values[] = {NAN, INFINITY, -3e9f, -2.7f, 300.5f};
    const int wanted[][10] = {{0, 0, INT_MIN, 0, INT_MIN, 1, 0, 0, 0, 0},
                              {INT_MAX, INT_MAX, INT_MAX, INT_MAX, INT_MAX, 0, INT_MAX, 255, 1, INT_MAX},
                              {INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, 1, INT_MIN, 0, 0, INT_MIN},
                              {-2, -2, -2, -2, -2, 1, -2, 0, 0, -2},
                              {300, 300, 300, 300, 300, 0, 300, 44, 0, 300}};
    int *o = managed(sizeof(wanted));
    float *x = managed(64);
    double *d = managed(64);
    for (int i = 0; i < 5; ++i)
        d[i] = x[i] = values[i];
    convert<<<1, 5>>>(x, d, o);
    EXPECT(done());
    for (int i = 0; i < 50; ++i)
        EXPECT(o[i] == wanted[i / 10][i % 10]);
}
