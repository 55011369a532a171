// Regression through a linear code; a penalty keeps the code's dimensions
// decorrelated (off-diagonal second moments over the batch, squared).
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include "ddprun.h"

const int D = 10, K = 4, B = 36, N = 360;
const float PENALTY = 0.3f;

struct Params { float *enc, *out, *g_enc, *g_out; };

__global__ void code_kernel(const float *x, const float *y, Params p, float *z, float *err, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    float o = 0;
    for (int k = 0; k < K; k++) {
        float s = 0;
        for (int d = 0; d < D; d++) s += x[r * D + d] * p.enc[d * K + k];
        z[r * K + k] = s;
        o += s * p.out[k];
    }
    err[r] = o - y[r];
}

__global__ void second_moments(const float *z, float *cov, int n)
{
    int a = threadIdx.x / K, b = threadIdx.x % K;
    float s = 0;
    for (int r = 0; r < n; r++) s += z[r * K + a] * z[r * K + b];
    cov[threadIdx.x] = s / n;
}

__global__ void backward(const float *x, Params p, const float *z, const float *err, const float *cov, int n)
{
    int d = threadIdx.x / K, k = threadIdx.x % K;
    float s = 0, o = 0;
    for (int r = 0; r < n; r++) {
        float dz = 2 * err[r] * p.out[k];
        for (int j = 0; j < K; j++)
            if (j != k) dz += PENALTY * 4 * cov[k * K + j] * z[r * K + j];
        s += dz * x[r * D + d];
        o += 2 * err[r] * z[r * K + k];
    }
    p.g_enc[threadIdx.x] = s / n;
    if (d == 0) p.g_out[k] = o / n;
}

__global__ void sgd(Params p, float lr)
{
    p.enc[threadIdx.x] -= lr * p.g_enc[threadIdx.x];
    if (threadIdx.x < K) p.out[threadIdx.x] -= lr * p.g_out[threadIdx.x];
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::mt19937 g(61);
    std::normal_distribution<float> nd;
    std::vector<float> x(N * D), y(N), e(D * K), o(K);
    for (int i = 0; i < N; i++) {
        for (int d = 0; d < D; d++) x[i * D + d] = nd(g);
        y[i] = x[i * D] - x[i * D + 1] + 0.5f * x[i * D + 2];
    }
    for (float &v : e) v = 0.5f * nd(g);
    for (float &v : o) v = 0.5f * nd(g);
    float *dx, *dy, *z, *err, *cov;
    Params p;
    cudaMalloc(&dx, N * D * 4); cudaMalloc(&dy, N * 4); cudaMalloc(&z, B * K * 4); cudaMalloc(&err, B * 4); cudaMalloc(&cov, K * K * 4);
    cudaMalloc(&p.enc, D * K * 4); cudaMalloc(&p.out, K * 4); cudaMalloc(&p.g_enc, D * K * 4); cudaMalloc(&p.g_out, K * 4);
    cudaMemcpy(dx, x.data(), N * D * 4, cudaMemcpyHostToDevice); cudaMemcpy(dy, y.data(), N * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(p.enc, e.data(), D * K * 4, cudaMemcpyHostToDevice); cudaMemcpy(p.out, o.data(), K * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(p.enc, D * K, DDP_FLOAT32);
    DDP_PARAMETER(p.out, K, DDP_FLOAT32);
    DDP_GRADIENT(p.g_enc, D * K, DDP_FLOAT32);
    DDP_GRADIENT(p.g_out, K, DDP_FLOAT32);
    for (int s = 0; s < steps; s++) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        size_t at = s * B % N + first;
        code_kernel<<<1, B>>>(dx + at * D, dy + at, p, z, err, (int)n);
        second_moments<<<1, K * K>>>(z, cov, (int)n);
        backward<<<1, D * K>>>(dx + at * D, p, z, err, cov, (int)n);
        DDP_STEP(0);
        sgd<<<1, D * K>>>(p, 0.05f);
        if (s % 10 == 0) {
            float h[B], l = 0;
            cudaMemcpy(h, err, n * 4, cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < n; i++) l += h[i] * h[i] / n;
            DDP_MEAN_AS("loss", &l);
            if (DDP_RANK() == 0) printf("step %d loss %.4f\n", s, l);
        }
    }
    return 0;
}
