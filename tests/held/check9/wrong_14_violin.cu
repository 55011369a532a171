// Denoising network for string vibrations with dropout from a counter-based generator (as in Philox: key and offset).
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

constexpr int kSignal = 28, kHidden = 48, kBatch = 44, kTotal = 1100;

__host__ __device__ inline uint32_t scramble(uint64_t counter, uint32_t key)
{
    uint64_t z = counter * 0x9E3779B97F4A7C15ULL + key;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return (uint32_t)(z >> 32);
}

struct PhiloxState {
    uint32_t key;
    uint64_t offset;
};

__global__ void hidden_dropout(const float *x, const float *w, const float *b, float *h, float *keep, int rows,
                               uint64_t base, uint32_t key, float p)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * kHidden) return;
    int r = i / kHidden, j = i % kHidden;
    float a = b[j];
    for (int k = 0; k < kSignal; ++k) a += x[r * kSignal + k] * w[k * kHidden + j];
    float u = scramble(base + i, key) / 4294967296.0f;
    keep[i] = u < p ? 0.0f : 1.0f / (1.0f - p);
    keep[i] *= a > 0 ? 1.0f : 0.0f;
    h[i] = a * keep[i];
}

__global__ void reconstruct(const float *h, const float *v, const float *c, const float *clean, float *err, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * kSignal) return;
    int r = i / kSignal, k = i % kSignal;
    float a = c[k];
    for (int j = 0; j < kHidden; ++j) a += h[r * kHidden + j] * v[j * kSignal + k];
    err[i] = a - clean[i];
}

__global__ void hidden_error(const float *err, const float *v, const float *keep, float *dh, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * kHidden) return;
    float a = 0;
    for (int k = 0; k < kSignal; ++k) a += err[i / kHidden * kSignal + k] * v[i % kHidden * kSignal + k];
    dh[i] = a * keep[i];
}

__global__ void product(const float *left, const float *right, float *out, float *column, int rows, int n, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * m) return;
    float a = 0, s = 0;
    for (int r = 0; r < rows; ++r) {
        a += left[r * n + i / m] * right[r * m + i % m];
        s += right[r * m + i % m];
    }
    out[i] = a / rows;
    if (i < m) column[i] = s / rows;
}

__global__ void adamw(float *w, const float *g, float *m, float *v, int n, int t, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.98f * v[i] + 0.02f * g[i] * g[i];
    float mh = m[i] / (1 - powf(0.9f, t)), vh = v[i] / (1 - powf(0.98f, t));
    w[i] -= rate * (mh / (sqrtf(vh) + 1e-3f) + 0.01f * w[i]);
}

class Parameter {
public:
    float *data, *grad;
    Parameter(int n, float scale, uint32_t key) : n_(n)
    {
        std::vector<float> t(n);
        for (int i = 0; i < n; ++i) t[i] = scale * (scramble(i, key) / 2147483648.0f - 1.0f);
        for (float **p : {&data, &grad, &m_, &v_}) {
            cudaMalloc(p, n * sizeof(float));
            cudaMemset(*p, 0, n * sizeof(float));
        }
        cudaMemcpy(data, t.data(), n * sizeof(float), cudaMemcpyHostToDevice);
        DDP_PARAMETER(data, n, DDP_FLOAT32);
        DDP_GRADIENT(grad, n, DDP_FLOAT32);
    }
    void update(int t, float rate) { adamw<<<(n_ + 63) / 64, 64>>>(data, grad, m_, v_, n_, t, rate); }
    void print(FILE *f) const
    {
        std::vector<float> t(n_);
        cudaMemcpy(t.data(), data, n_ * sizeof(float), cudaMemcpyDeviceToHost);
        for (float e : t) fprintf(f, "%.9g\n", e);
    }
private:
    float *m_, *v_;
    int n_;
};

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<float> clean(kTotal * kSignal), noisy(kTotal * kSignal);
    for (int i = 0; i < kTotal; ++i) {
        float f = 0.15f + scramble(i, 1) / 4294967296.0f * 0.5f, ph = scramble(i, 2) / 4294967296.0f * 6.28f;
        for (int k = 0; k < kSignal; ++k) {
            clean[i * kSignal + k] = sinf(f * k + ph) + 0.4f * sinf(2 * f * k + 2 * ph);
            noisy[i * kSignal + k] = clean[i * kSignal + k] + 0.6f * (scramble(i * kSignal + k, 3) / 2147483648.0f - 1.0f);
        }
    }
    float *dc, *dn, *h, *keep, *err, *dh;
    cudaMalloc(&dc, clean.size() * 4); cudaMalloc(&dn, noisy.size() * 4);
    cudaMalloc(&h, kBatch * kHidden * 4); cudaMalloc(&keep, kBatch * kHidden * 4);
    cudaMalloc(&err, kBatch * kSignal * 4); cudaMalloc(&dh, kBatch * kHidden * 4);
    cudaMemcpy(dc, clean.data(), clean.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dn, noisy.data(), noisy.size() * 4, cudaMemcpyHostToDevice);
    Parameter w(kSignal * kHidden, 0.25f, 10), b(kHidden, 0, 11), v(kHidden * kSignal, 0.2f, 12), c(kSignal, 0, 13);

    PhiloxState rng = {2024u, 0};
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        int rows = (int)count;
        size_t at = (step * kBatch) % kTotal + first;
        hidden_dropout<<<(rows * kHidden + 63) / 64, 64>>>(dn + at * kSignal, w.data, b.data, h, keep, rows,
                                                           rng.offset + first * kHidden, rng.key, 0.25f);
        rng.offset += count * kHidden;
        reconstruct<<<(rows * kSignal + 63) / 64, 64>>>(h, v.data, c.data, dc + at * kSignal, err, rows);
        hidden_error<<<(rows * kHidden + 63) / 64, 64>>>(err, v.data, keep, dh, rows);
        product<<<(kHidden * kSignal + 63) / 64, 64>>>(h, err, v.grad, c.grad, rows, kHidden, kSignal);
        product<<<(kSignal * kHidden + 63) / 64, 64>>>(dn + at * kSignal, dh, w.grad, b.grad, rows, kSignal, kHidden);
        DDP_STEP(0);
        w.update(step + 1, 0.01f); b.update(step + 1, 0.01f); v.update(step + 1, 0.01f); c.update(step + 1, 0.01f);
        if (step % 10 == 0 || step == steps - 1) {
            std::vector<float> e(rows * kSignal);
            cudaMemcpy(e.data(), err, e.size() * 4, cudaMemcpyDeviceToHost);
            double mse = 0;
            for (float q : e) mse += q * q / e.size();
            DDP_MEAN(&mse);
            if (DDP_RANK() == 0) printf("step %2d mse %.4f\n", step, mse);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        w.print(f); b.print(f); v.print(f); c.print(f);
        fclose(f);
    }
    return 0;
}
