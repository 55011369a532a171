// Intrinsics of bfloat16 and pairs of them: fused products, extremes, comparisons, conversions, operators.
#include <cuda_bf16.h>
__global__ void
k(float *out)
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

int
main()
{
    float *out = managed(64);
    k<<<1, 1>>>(out);
    cudaDeviceSynchronize();
    const float expected[] = {7.5f, -10, 3.5f, 3, 8, 12, 16256, -1, 1};
    for (int i = 0; i < 9; ++i) {
        if (out[i] != expected[i])
            return i + 1;
    }
    return 0;
}
