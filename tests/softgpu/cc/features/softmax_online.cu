// A warp per row, running maximum and sum, __reduce-like shuffles of two values, negative infinity.
#include <cmath>
struct __align__(8) MD
{
    float m, d;
};
__device__ __forceinline__ MD
reduce_md(MD a, MD b)
{
    const bool bigger = a.m > b.m;
    const MD big = bigger ? a : b, small = bigger ? b : a;
    MD r;
    r.d = big.d + small.d * __expf(small.m - big.m);
    r.m = big.m;
    return r;
}
__global__ void
softmax(const float *__restrict__ x, float *__restrict__ y, int V)
{
    const int lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    x += row * V, y += row * V;
    MD md{-INFINITY, 0.0f};
    for (int i = lane; i < V; i += 32)
        md = reduce_md(md, MD{x[i], 1.0f});
    for (int offset = 16; offset > 0; offset >>= 1) {
        MD other;
        other.m = __shfl_down_sync(0xFFFFFFFF, md.m, offset);
        other.d = __shfl_down_sync(0xFFFFFFFF, md.d, offset);
        md = reduce_md(md, other);
    }
    md.m = __shfl_sync(0xFFFFFFFF, md.m, 0);
    md.d = __shfl_sync(0xFFFFFFFF, md.d, 0);
    for (int i = lane; i < V; i += 32)
        y[i] = __fdividef(__expf(x[i] - md.m), md.d);
}
int
main()
{
    float *x, *y, sum = 0;
    cudaMallocManaged(&x, 400 * 4);
    cudaMallocManaged(&y, 400 * 4);
    for (int i = 0; i < 400; ++i)
        x[i] = i % 7;
    softmax<<<2, 64>>>(x, y, 100);
    cudaDeviceSynchronize();
    for (int i = 300; i < 400; ++i)
        sum += y[i];
    return std::fabs(sum - 1) < 1e-4f && std::fabs(y[6] / y[5] - 2.7182817f) < 1e-3f ? 0 : 1;
}
