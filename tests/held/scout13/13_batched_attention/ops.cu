#include "ops.h"
#include <stdexcept>

static void ok(cublasStatus_t s)
{
    if (s != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("cuBLAS failed");
}

void matmul(cublasHandle_t h, const float *a, const float *b, float *c, int m, int k, int n, float beta)
{
    const float one = 1.f;
    ok(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, b, n, a, k, &beta, c, n));
}

void matmul_ta(cublasHandle_t h, const float *a, const float *b, float *c, int k, int m, int n, float alpha)
{
    const float zero = 0.f;
    ok(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_T, n, m, k, &alpha, b, n, a, m, &zero, c, n));
}

void matmul_tb(cublasHandle_t h, const float *a, const float *b, float *c, int m, int k, int n, float beta)
{
    const float one = 1.f;
    ok(cublasSgemm(h, CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, b, k, a, k, &beta, c, n));
}

void bmm(cublasHandle_t h, const float *a, const float *b, float *c, int batch, int m, int k, int n)
{
    const float one = 1.f, zero = 0.f;
    ok(cublasSgemmStridedBatched(h, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, b, n, (long long)k * n, a, k, (long long)m * k,
                                 &zero, c, n, (long long)m * n, batch));
}

void bmm_ta(cublasHandle_t h, const float *a, const float *b, float *c, int batch, int k, int m, int n)
{
    const float one = 1.f, zero = 0.f;
    ok(cublasSgemmStridedBatched(h, CUBLAS_OP_N, CUBLAS_OP_T, n, m, k, &one, b, n, (long long)k * n, a, m, (long long)k * m,
                                 &zero, c, n, (long long)m * n, batch));
}

void bmm_tb(cublasHandle_t h, const float *a, const float *b, float *c, int batch, int m, int k, int n, float alpha)
{
    const float zero = 0.f;
    ok(cublasSgemmStridedBatched(h, CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &alpha, b, k, (long long)n * k, a, k, (long long)m * k,
                                 &zero, c, n, (long long)m * n, batch));
}

__global__ void softmax_kernel(float *a, int rows, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float *p = a + r * n, top = p[0], sum = 0.f;
    for (int i = 1; i < n; ++i) top = fmaxf(top, p[i]);
    for (int i = 0; i < n; ++i) sum += p[i] = expf(p[i] - top);
    for (int i = 0; i < n; ++i) p[i] /= sum;
}

void softmax_rows(float *a, int rows, int n) { softmax_kernel<<<(rows + 63) / 64, 64>>>(a, rows, n); }

__global__ void softmax_backward_kernel(const float *a, float *da, int rows, int n, float scale)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float dot = 0.f;
    for (int i = 0; i < n; ++i) dot += a[r * n + i] * da[r * n + i];
    for (int i = 0; i < n; ++i) da[r * n + i] = scale * a[r * n + i] * (da[r * n + i] - dot);
}

void softmax_rows_backward(const float *a, float *da, int rows, int n, float scale)
{
    softmax_backward_kernel<<<(rows + 63) / 64, 64>>>(a, da, rows, n, scale);
}

__global__ void pool_kernel(const float *o, float *p, int t, int d)
{
    float s = 0.f;
    for (int i = 0; i < t; ++i) s += o[(blockIdx.x * t + i) * d + threadIdx.x];
    p[blockIdx.x * d + threadIdx.x] = s / t;
}

void pool(const float *o, float *p, int batch, int t, int d) { pool_kernel<<<batch, d>>>(o, p, t, d); }

__global__ void unpool_kernel(const float *dp, float *d_o, int t, int d)
{
    for (int i = 0; i < t; ++i) d_o[(blockIdx.x * t + i) * d + threadIdx.x] = dp[blockIdx.x * d + threadIdx.x] / t;
}

void unpool(const float *dp, float *d_o, int batch, int t, int d) { unpool_kernel<<<batch, d>>>(dp, d_o, t, d); }

__global__ void mse_kernel(const float *y, const float *target, float *dy, float *loss, int n, int batch)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float e = y[i] - target[i];
    dy[i] = 2.f * e / batch;
    atomicAdd(loss, e * e / batch);
}

void mse(const float *y, const float *target, float *dy, float *loss, int batch, int out)
{
    mse_kernel<<<(batch * out + 63) / 64, 64>>>(y, target, dy, loss, batch * out, batch);
}

__global__ void momentum_kernel(float *w, const float *g, float *v, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * (v[i] = 0.9f * v[i] + g[i]);
}

void momentum_update(float *w, const float *g, float *v, int n, float lr) { momentum_kernel<<<(n + 127) / 128, 128>>>(w, g, v, n, lr); }
