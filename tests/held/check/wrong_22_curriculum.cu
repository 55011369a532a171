// Self-paced learning: samples whose loss is above a threshold wait. The threshold
// follows the average loss that was seen so far.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

constexpr int kDim = 10, kBatch = 40, kData = 400;

__global__ void sample_losses(const float *x, const float *y, const float *w, float *err, float *loss, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    float s = 0;
    for (int d = 0; d < kDim; ++d) s += w[d] * x[r * kDim + d];
    err[r] = s - y[r];
    loss[r] = err[r] * err[r];
}

__global__ void paced_gradient(const float *x, const float *err, const float *loss, float pace, float *g, int n)
{
    float s = 0;
    for (int r = 0; r < n; ++r)
        if (loss[r] <= pace) s += 2 * err[r] * x[r * kDim + threadIdx.x];
    g[threadIdx.x] = s / n;
}

__global__ void sgd(float *w, const float *g) { w[threadIdx.x] -= 0.1f * g[threadIdx.x]; }

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::mt19937_64 gen(6);
    std::normal_distribution<float> nd;
    std::vector<float> x(kData * kDim), y(kData);
    for (int i = 0; i < kData; ++i) {
        y[i] = i % 11 == 0 ? 5 * nd(gen) : 0.1f * nd(gen);
        for (int d = 0; d < kDim; ++d) y[i] += (d - 4) * 0.4f * (x[i * kDim + d] = nd(gen));
    }
    float *dx, *dy, *w, *g, *err, *loss;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dy, y.size() * 4);
    cudaMalloc(&w, kDim * 4); cudaMalloc(&g, kDim * 4); cudaMalloc(&err, kBatch * 4); cudaMalloc(&loss, kBatch * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), y.size() * 4, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, kDim * 4);
    DDP_PARAMETER(w, kDim, DDP_FLOAT32);
    DDP_GRADIENT(g, kDim, DDP_FLOAT32);
    float average = 8;
    for (int s = 0; s < steps; ++s) {
        size_t first, n;
        DDP_SHARD(kBatch, &first, &n);
        size_t at = s * kBatch % kData + first;
        sample_losses<<<1, kBatch>>>(dx + at * kDim, dy + at, w, err, loss, (int)n);
        paced_gradient<<<1, kDim>>>(dx + at * kDim, err, loss, 1.5f * average, g, (int)n);
        DDP_STEP(0);
        sgd<<<1, kDim>>>(w, g);
        std::vector<float> l(n);
        cudaMemcpy(l.data(), loss, n * 4, cudaMemcpyDeviceToHost);
        float mean = 0;
        for (float v : l) mean += v / n;
        average = 0.8f * average + 0.2f * mean;
        if (s % 10 == 9 && DDP_RANK() == 0) printf("step %d loss %.4f pace %.4f\n", s + 1, mean, average);
    }
    return 0;
}
