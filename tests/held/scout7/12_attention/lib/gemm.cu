#include "nn.h"
#include <cuda_runtime.h>

__global__ void gemm_kernel(const float *a, int ta, const float *b, int tb, float *c, int m, int n, int k, float alpha, float beta)
{
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= m || col >= n) return;
    float s = 0.f;
    for (int i = 0; i < k; i++)
        s += (ta ? a[i * m + row] : a[row * k + i]) * (tb ? b[col * k + i] : b[i * n + col]);
    c[row * n + col] = alpha * s + (beta != 0.f ? beta * c[row * n + col] : 0.f);
}

void nn_gemm(const float *a, int ta, const float *b, int tb, float *c, int m, int n, int k, float alpha, float beta)
{
    dim3 block(16, 16), grid((n + 15) / 16, (m + 15) / 16);
    gemm_kernel<<<grid, block>>>(a, ta, b, tb, c, m, n, k, alpha, beta);
}
