// Half precision: comparisons, functions, special values, bits, conversions to integers, pairs from memory.
#include <cuda_fp16.h>
__global__ void
k(float *out, const __half *in)
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
}

int
main()
{
    float *out = managed(64);
    __half *in = managed(4);
    in[0] = __float2half(2.5f), in[1] = __float2half(4.0f);
    k<<<1, 1>>>(out, in);
    cudaDeviceSynchronize();
    const float expected[] = {8.5f, 13, 6.5f, 15362, 382, 20, 1.5f, 0, 3};
    for (int i = 0; i < 9; ++i) {
        if (out[i] != expected[i])
            return i + 1;
    }
    return 0;
}
