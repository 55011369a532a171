// Gather and scatter-add with two-dimensional launches, long indices, atomicAdd of half2 and double.
#include <cuda_fp16.h>
__global__ void
forward(const float *table, const long *index, float *out, int width)
{
    out[blockIdx.x * width + threadIdx.x] = table[index[blockIdx.x] * width + threadIdx.x];
}
__global__ void
backward(const float *grad, const long *index, float *table_grad, half2 *counts, int width)
{
    atomicAdd(&table_grad[index[blockIdx.y] * width + threadIdx.x], grad[blockIdx.y * width + threadIdx.x]);
    if (threadIdx.x == 0)
        atomicAdd(counts + index[blockIdx.y], __floats2half2_rn(1.0f, 2.0f));
}
int
main()
{
    float *m = managed(400 * 4);
    long *index = managed(80);
    half2 *counts = managed(64);
    for (int i = 0; i < 80; ++i)
        m[i] = i;
    for (int i = 0; i < 10; ++i)
        index[i] = i * 3 % 5;
    forward<<<10, 8>>>(m, index, m + 80, 8);
    backward<<<dim3(1, 10), 8>>>(m + 80, index, m + 160, counts, 8);
    cudaDeviceSynchronize();
    return m[80 + 9] == 25 && m[160 + 8] == 16 && __low2float(counts[1]) == 2 && __high2float(counts[4]) == 4 ? 0 : 1;
}
