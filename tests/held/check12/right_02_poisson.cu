// Poisson regression with a Gaussian prior, by stochastic gradient Langevin dynamics.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <vector>
#include "ddprun.h"

constexpr int kRows = 512, kDim = 15, kBatch = 64, STEPS = 60;

struct Problem {
    std::vector<float> x, y;
    Problem() : x(kRows * kDim), y(kRows)
    {
        unsigned s = 1009;
        auto u = [&] { s = s * 1664525u + 1013904223u; return (s >> 8) / 16777216.0f; };
        std::vector<float> w(kDim);
        for (float &f : w) f = 1.2f * (u() - 0.5f);
        for (int i = 0; i < kRows; ++i) {
            float e = 0.4f;
            for (int k = 0; k < kDim; ++k) {
                x[i * kDim + k] = k ? 2 * u() - 1 : 1.0f;
                e += w[k] * x[i * kDim + k];
            }
            float l = expf(-expf(e)), p = 1;
            int c = -1;
            do { ++c; p *= u(); } while (p > l && c < 40);
            y[i] = (float)c;
        }
    }
};

__device__ float gaussian(unsigned a)
{
    float s = 0;
    for (int i = 0; i < 8; ++i) {
        a = a * 1664525u + 1013904223u;
        unsigned b = a ^ (a >> 15);
        b *= 0x2c1b3c6du;
        s += ((b ^ (b >> 12)) >> 8) * (1.0f / 16777216.0f) - 0.5f;
    }
    return s * 1.2247f;
}

__global__ void rates(const float *w, const float *x, const float *y, float *d, float *nll, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float e = 0;
    for (int k = 0; k < kDim; ++k) e += w[k] * x[i * kDim + k];
    d[i] = expf(e) - y[i];
    nll[i] = expf(e) - y[i] * e;
}

__global__ void likelihood_gradient(const float *x, const float *d, float *g, int n, float scale)
{
    int k = threadIdx.x;
    if (k >= kDim) return;
    float s = 0;
    for (int i = 0; i < n; ++i) s += d[i] * x[i * kDim + k];
    g[k] = s * scale;
}

__global__ void add_prior_and_noise(float *g, const float *w, float precision, float sigma, unsigned step)
{
    int k = threadIdx.x;
    if (k < kDim) g[k] += precision * w[k] + sigma * gaussian(step * 2654435761u + 97u * k);
}

__global__ void move(float *w, const float *g, float rate)
{
    int k = threadIdx.x;
    if (k < kDim) w[k] -= rate * g[k];
}

int main(int argc, char **argv)
{
    Problem problem;
    float *x, *y, *w, *g, *d, *nll;
    cudaMalloc(&x, problem.x.size() * 4);
    cudaMalloc(&y, problem.y.size() * 4);
    cudaMalloc(&w, kDim * 4);
    cudaMalloc(&g, kDim * 4);
    cudaMalloc(&d, kBatch * 4);
    cudaMalloc(&nll, kBatch * 4);
    cudaMemcpy(x, problem.x.data(), problem.x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(y, problem.y.data(), problem.y.size() * 4, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, kDim * 4);
    DDP_PARAMETER(w, kDim, DDP_FLOAT32);
    DDP_GRADIENT(g, kDim, DDP_FLOAT32);

    const float scale = (float)DDP_WORLD_SIZE() / kBatch;
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        const int n = (int)count;
        const size_t row = (size_t)step * kBatch % kRows + first;
        rates<<<(n + 31) / 32, 32>>>(w, x + row * kDim, y + row, d, nll, n);
        likelihood_gradient<<<1, 32>>>(x + row * kDim, d, g, n, scale);
        add_prior_and_noise<<<1, 32>>>(g, w, 0.02f, 0.1f, (unsigned)step);
        DDP_STEP(0);
        move<<<1, 32>>>(w, g, 0.1f / (1.0f + 0.02f * step));
        if (step % 10 == 0 || step == STEPS - 1) {
            std::vector<float> h(n);
            cudaMemcpy(h.data(), nll, n * 4, cudaMemcpyDeviceToHost);
            double sum = 0;
            for (float f : h) sum += f;
            sum *= scale;
            DDP_MEAN_AS("nll", &sum);
            if (DDP_RANK() == 0) std::printf("step %d loss %.4f\n", step, sum);
        }
    }
    std::vector<float> out(kDim);
    cudaMemcpy(out.data(), w, kDim * 4, cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(out.data(), 4, kDim, f);
        std::fclose(f);
    }
    return 0;
}
