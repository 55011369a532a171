// flags: -std=c++20 --expt-relaxed-constexpr
// Mathematical functions as training code calls them, with and without std::, for float and double.
#include <cmath>
__global__ void
k(float x, double y, float *o)
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
int
main()
{
    float *o = managed(32);
    k<<<1, 1>>>(1.0f, 3.0, o);
    cudaDeviceSynchronize();
    const float wanted[] = {1.5f,
                            2 - 1 + 4 + 1 + 1 + 1 + 3,
                            8 + 4 + 9 + 8 + 3 + 0.5f + 0.5f,
                            4,
                            1 + 2 + 3 + 2 - 1 + 1.5f - 1,
                            6 + 2 + 0.25f + 3 + 1 + 5,
                            0.6931472f + 6 + 3 + 2,
                            5 - 1 + 2 + 7 + 1 + 8};
    for (int i = 0; i < 8; ++i)
        if (!(std::fabs(o[i] - wanted[i]) < 1e-4f))
            return 1 + i;
    return 0;
}
