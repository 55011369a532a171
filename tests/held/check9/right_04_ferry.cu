// Differentially private training: each example's gradient is clipped, noise is added, then an ordinary SGD step.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

namespace dp {

constexpr int kIn = 16, kHid = 18, kOut = 3, kBatch = 40, kRows = 800;
constexpr int kB1 = kIn * kHid, kW2 = kB1 + kHid, kB2 = kW2 + kHid * kOut, kParams = kB2 + kOut;

struct Options {
    float clip = 1.0f;
    float sigma = 0.8f;
    float rate = 0.5f;
    uint32_t key = 4711;
};

__host__ __device__ inline uint32_t hash(uint32_t a, uint32_t b)
{
    uint32_t h = a * 0x85ebca6bu ^ (b + 0x9e3779b9u) * 0xc2b2ae35u;
    h ^= h >> 16; h *= 0x7feb352du; h ^= h >> 15; h *= 0x846ca68bu; h ^= h >> 16;
    return h;
}

__host__ __device__ inline float normal(uint32_t key, uint32_t n)
{
    float u = (hash(key, 2 * n) >> 8) / 16777216.0f + 1e-7f, v = (hash(key, 2 * n + 1) >> 8) / 16777216.0f;
    return sqrtf(-2 * logf(u)) * cosf(6.2831853f * v);
}

// One thread for each example: forward, backward, and its own gradient (kParams values)
__global__ void example_gradient(const float *p, const float *x, const int *y, float *each, float *nll, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float h[kHid], z[kOut], top = -1e30f, sum = 0, *g = each + (size_t)r * kParams;
    for (int j = 0; j < kHid; ++j) {
        float a = p[kB1 + j];
        for (int k = 0; k < kIn; ++k) a += x[r * kIn + k] * p[k * kHid + j];
        h[j] = tanhf(a);
    }
    for (int o = 0; o < kOut; ++o) {
        z[o] = p[kB2 + o];
        for (int j = 0; j < kHid; ++j) z[o] += h[j] * p[kW2 + j * kOut + o];
        top = fmaxf(top, z[o]);
    }
    for (int o = 0; o < kOut; ++o) sum += expf(z[o] - top);
    nll[r] = logf(sum) + top - z[y[r]];
    for (int o = 0; o < kOut; ++o) g[kB2 + o] = expf(z[o] - top) / sum - (o == y[r]);
    for (int j = 0; j < kHid; ++j) {
        float d = 0;
        for (int o = 0; o < kOut; ++o) {
            g[kW2 + j * kOut + o] = h[j] * g[kB2 + o];
            d += g[kB2 + o] * p[kW2 + j * kOut + o];
        }
        g[kB1 + j] = d * (1 - h[j] * h[j]);
        for (int k = 0; k < kIn; ++k) g[k * kHid + j] = x[r * kIn + k] * g[kB1 + j];
    }
}

__global__ void clip_factor(const float *each, float *factor, float limit, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0;
    for (int i = 0; i < kParams; ++i) s += each[(size_t)r * kParams + i] * each[(size_t)r * kParams + i];
    factor[r] = fminf(1.0f, limit / (sqrtf(s) + 1e-8f));
}

__global__ void sum_clipped(const float *each, const float *factor, float *g, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kParams) return;
    float s = 0;
    for (int r = 0; r < rows; ++r) s += factor[r] * each[(size_t)r * kParams + i];
    g[i] = s / rows;
}

__global__ void add_noise(float *g, float scale, uint32_t key)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < kParams) g[i] += scale * normal(key, i);
}

__global__ void sgd(float *p, const float *g, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < kParams) p[i] -= rate * g[i];
}

class Trainer {
public:
    explicit Trainer(Options o) : opt(o), host(kParams, 0.0f)
    {
        for (int i = 0; i < kParams; ++i)
            if (i < kB1 || (i >= kW2 && i < kB2)) host[i] = 0.35f * normal(1, i);
        cudaMalloc(&p, kParams * 4); cudaMalloc(&g, kParams * 4);
        cudaMalloc(&each, (size_t)kBatch * kParams * 4);
        cudaMalloc(&factor, kBatch * 4); cudaMalloc(&nll, kBatch * 4);
        cudaMemcpy(p, host.data(), kParams * 4, cudaMemcpyHostToDevice);
        DDP_PARAMETER(p, kParams, DDP_FLOAT32);
        DDP_GRADIENT(g, kParams, DDP_FLOAT32);
    }
    float step(const float *x, const int *y, int rows, uint32_t number)
    {
        example_gradient<<<(rows + 15) / 16, 16>>>(p, x, y, each, nll, rows);
        clip_factor<<<(rows + 15) / 16, 16>>>(each, factor, opt.clip, rows);
        sum_clipped<<<(kParams + 63) / 64, 64>>>(each, factor, g, rows);
        add_noise<<<(kParams + 63) / 64, 64>>>(g, opt.sigma * opt.clip / kBatch, hash(opt.key, number));
        DDP_STEP(0);
        sgd<<<(kParams + 63) / 64, 64>>>(p, g, opt.rate);
        std::vector<float> l(rows);
        cudaMemcpy(l.data(), nll, rows * 4, cudaMemcpyDeviceToHost);
        float m = 0;
        for (float e : l) m += e / rows;
        return m;
    }
    void save(const char *name)
    {
        cudaMemcpy(host.data(), p, kParams * 4, cudaMemcpyDeviceToHost);
        FILE *f = fopen(name, "w");
        for (float e : host) fprintf(f, "%.9g\n", e);
        fclose(f);
    }
private:
    Options opt;
    std::vector<float> host;
    float *p, *g, *each, *factor, *nll;
};

} // namespace dp

int main(int argc, char **argv)
{
    using namespace dp;
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<float> x(kRows * kIn);
    std::vector<int> y(kRows);
    for (int i = 0; i < kRows; ++i) {
        y[i] = hash(5, i) % kOut;
        for (int k = 0; k < kIn; ++k) x[i * kIn + k] = 0.8f * normal(77, y[i] * kIn + k) + normal(78, i * kIn + k);
    }
    float *dx;
    int *dy;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dy, y.size() * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), y.size() * 4, cudaMemcpyHostToDevice);
    Trainer trainer{Options()};
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        size_t at = s * kBatch % kRows + first;
        float loss = trainer.step(dx + at * kIn, dy + at, (int)count, s);
        DDP_MEAN_AS("loss", &loss);
        if (s % 10 == 0 || s == steps - 1) printf("step %d loss %.4f\n", s, loss);
    }
    if (argc > 1 && DDP_RANK() == 0) trainer.save(argv[1]);
    return 0;
}
