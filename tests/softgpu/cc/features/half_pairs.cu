// Pairs of halves: fused products, comparisons, conversions, a dot product of vector loads.
#include <cuda_fp16.h>
__global__ void
dot(const half *a, const half *b, float *out, int pairs)
{
    const half2 *a2 = reinterpret_cast<const half2 *>(a), *b2 = reinterpret_cast<const half2 *>(b);
    half2 sum = __float2half2_rn(0.0f);
    for (int i = threadIdx.x; i < pairs; i += blockDim.x)
        sum = __hfma2(a2[i], b2[i], sum);
    float total = __low2float(sum) + __high2float(sum);
    for (int offset = 16; offset > 0; offset /= 2)
        total += __shfl_down_sync(0xffffffff, total, offset);
    if (threadIdx.x == 0) {
        out[0] = total;
        out[1] = __hgt(a[1], b[1]) && __hbeq2(__halves2half2(a[0], a[1]), a2[0])
                     ? __half2float(hsqrt(__hmul(a[3], a[3])))
                     : -1;
        out[2] = __half2float(__hmax(a[0], a[2])) + static_cast<float>(__half2int_rn(a[2]));
        out[3] = __low2float(h2exp2(__floats2half2_rn(3.0f, 0.0f)));
    }
}

int
main()
{
    half *a = managed(256), *b = managed(256);
    float *out = managed(16), wanted = 0;
    for (int i = 0; i < 128; ++i) {
        a[i] = __float2half(static_cast<float>(i % 5)), b[i] = __float2half(static_cast<float>(i % 3 - 1));
        wanted += static_cast<float>(i % 5 * (i % 3 - 1));
    }
    dot<<<1, 32>>>(a, b, out, 64);
    cudaDeviceSynchronize();
    return out[0] != wanted || out[1] != 3 || out[2] != 4 || out[3] != 8;
}
