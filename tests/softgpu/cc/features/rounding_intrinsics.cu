// Arithmetic with a rounding mode in its name, fused products, fast division and functions, conversions by mode.
#include <cmath>
__global__ void
k(double *out, float x, double y)
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

int
main()
{
    double *out = managed(80);
    k<<<1, 1>>>(out, 2.0f, 2.0);
    cudaDeviceSynchronize();
    const double expected[] = {8, 10.5, 9.5, 4.5, 2318, 1, 24.5, 1, 11};
    for (int i = 0; i < 9; ++i) {
        if (out[i] != expected[i])
            return i + 1;
    }
    return 0;
}
