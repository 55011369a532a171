// Mixed precision: float master weights, half copies, half2 arithmetic, bfloat16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
__global__ void
update(float *master, half *w, const __half *g, __nv_bfloat16 *copy, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        master[i] -= lr * __half2float(g[i]);
        w[i] = __float2half(master[i]);
        copy[i] = __float2bfloat16(master[i]);
    }
}
__global__ void
scale(half2 *x, float s, int n2)
{
    int i = threadIdx.x;
    if (i < n2) {
        half2 v = __hmul2(x[i], __float2half2_rn(s));
        x[i] = __hadd2(v, __halves2half2(__low2half(v), half(1.0f)));
    }
}

int
main()
{
    float *master = managed(16);
    half *w = managed(8);
    half *g = managed(8);
    __nv_bfloat16 *copy = managed(8);
    for (int i = 0; i < 4; ++i)
        master[i] = i, g[i] = __float2half(2.0f);
    update<<<1, 32>>>(master, w, g, copy, 0.5f, 4);
    scale<<<1, 32>>>(reinterpret_cast<half2 *>(w), 2.0f, 2);
    cudaDeviceSynchronize();
    return master[3] == 2 && __bfloat162float(copy[3]) == 2 && __half2float(w[2]) == 4 && float(w[3]) == 5 ? 0 : 1;
}
