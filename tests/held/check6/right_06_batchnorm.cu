// Classifier with batch normalisation between its layers. The sums of the normalisation go through DDP_REDUCE in the
// forward and in the backward pass. SGD with momentum.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

constexpr int kIn = 9, kUnits = 32, kClasses = 4, kBatch = 32, kRows = 640;

inline void cu(cudaError_t e, int line)
{
    if (e != cudaSuccess) { std::fprintf(stderr, "%d: %s\n", line, cudaGetErrorString(e)); std::exit(1); }
}
#define CU(e) cu((e), __LINE__)

template <int N> struct Param {
    float *w = nullptr, *g = nullptr, *v = nullptr;
    Param(const std::vector<float> &start)
    {
        for (float **p : {&w, &g, &v}) { CU(cudaMalloc(p, N * sizeof(float))); CU(cudaMemset(*p, 0, N * sizeof(float))); }
        CU(cudaMemcpy(w, start.data(), N * sizeof(float), cudaMemcpyHostToDevice));
        DDP_PARAMETER(w, N, DDP_FLOAT32);
        DDP_GRADIENT(g, N, DDP_FLOAT32);
        DDP_STATE(v, N, DDP_FLOAT32);
    }
    static constexpr int size = N;
};

__global__ void project(const float *x, const float *w, float *z, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * kUnits) return;
    float s = 0;
    for (int k = 0; k < kIn; ++k) s += x[t / kUnits * kIn + k] * w[k * kUnits + t % kUnits];
    z[t] = s;
}
// sums[0..units): sum of z; sums[units..2 units): sum of squares
__global__ void moments(const float *z, float *sums, int n)
{
    int j = threadIdx.x;
    float a = 0, b = 0;
    for (int i = 0; i < n; ++i) { a += z[i * kUnits + j]; b += z[i * kUnits + j] * z[i * kUnits + j]; }
    sums[j] = a;
    sums[kUnits + j] = b;
}
__global__ void normalise(const float *z, const float *sums, const float *gamma, const float *beta, float *zn, float *a, float total, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * kUnits) return;
    int j = t % kUnits;
    float mean = sums[j] / total, var = sums[kUnits + j] / total - mean * mean;
    zn[t] = (z[t] - mean) * rsqrtf(var + 1e-3f);
    a[t] = fmaxf(gamma[j] * zn[t] + beta[j], 0.f);
}
__global__ void classify(const float *a, const float *w, const int *y, float *dz, float *loss, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    float q[kClasses], s = 0;
    for (int c = 0; c < kClasses; ++c) {
        q[c] = 0;
        for (int j = 0; j < kUnits; ++j) q[c] += a[i * kUnits + j] * w[c * kUnits + j];
        s += expf(q[c]);
    }
    loss[i] = logf(s) - q[y[i]];
    for (int c = 0; c < kClasses; ++c) dz[i * kClasses + c] = (expf(q[c]) / s - (c == y[i] ? 1.f : 0.f)) / n;
}
__global__ void classGrad(const float *a, const float *dz, float *g, int n)
{
    int t = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n; ++i) s += dz[i * kClasses + t / kUnits] * a[i * kUnits + t % kUnits];
    g[t] = s;
}
// d: gradient at the output of gamma * zn + beta; its two sums over this process's rows
__global__ void normGrad(const float *dz, const float *w, const float *a, const float *zn, float *d, float *ggamma, float *gbeta, float *sums, int n)
{
    int j = threadIdx.x;
    float sg = 0, sb = 0;
    for (int i = 0; i < n; ++i) {
        float e = 0;
        for (int c = 0; c < kClasses; ++c) e += dz[i * kClasses + c] * w[c * kUnits + j];
        if (a[i * kUnits + j] <= 0) e = 0;
        d[i * kUnits + j] = e;
        sb += e;
        sg += e * zn[i * kUnits + j];
    }
    ggamma[j] = sg;
    gbeta[j] = sb;
    sums[j] = sb;
    sums[kUnits + j] = sg;
}
__global__ void normBack(float *d, const float *zn, const float *moments, const float *sums, const float *gamma, float total, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * kUnits) return;
    int j = t % kUnits;
    float mean = moments[j] / total, var = moments[kUnits + j] / total - mean * mean;
    d[t] = gamma[j] * rsqrtf(var + 1e-3f) * (d[t] - sums[j] / n - zn[t] * sums[kUnits + j] / n);
}
__global__ void projectGrad(const float *x, const float *d, float *g, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= kIn * kUnits) return;
    float s = 0;
    for (int i = 0; i < n; ++i) s += x[i * kIn + t / kUnits] * d[i * kUnits + t % kUnits];
    g[t] = s;
}
__global__ void momentum(float *w, float *v, const float *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { v[i] = 0.8f * v[i] + g[i]; w[i] -= rate * v[i]; }
}
template <int N> void update(Param<N> &p, float rate) { momentum<<<(N + 63) / 64, 64>>>(p.w, p.v, p.g, rate, N); }

int main(int argc, char **argv)
{
    int steps = argc > 2 ? std::atoi(argv[2]) : 60;
    unsigned s = 99;
    auto rnd = [&s] { s = s * 1103515245u + 12345u; return (s >> 8) / 8388608.f - 1.f; };
    auto many = [&](int n, float scale) { std::vector<float> v(n); for (float &x : v) x = scale * rnd(); return v; };
    std::vector<float> X = many(kRows * kIn, 2.f);
    std::vector<int> Y(kRows);
    for (int i = 0; i < kRows; ++i) {
        const float *x = &X[i * kIn];
        Y[i] = (x[0] + x[1] > 0) * 2 + (x[2] * x[3] > 0);
        X[i * kIn + 4] += 5.f;
    }
    Param<kIn * kUnits> w1(many(kIn * kUnits, 0.6f));
    Param<kUnits> gamma(std::vector<float>(kUnits, 1.f)), beta(std::vector<float>(kUnits, 0.f));
    Param<kClasses * kUnits> w2(many(kClasses * kUnits, 0.3f));
    float *buffers[8];
    for (float *&b : buffers) CU(cudaMalloc(&b, kBatch * kUnits * sizeof(float)));
    float *x = buffers[0], *z = buffers[1], *zn = buffers[2], *a = buffers[3], *d = buffers[4], *dz = buffers[5], *loss = buffers[6], *sums = buffers[7];
    float *back_sums;
    int *y;
    CU(cudaMalloc(&back_sums, 2 * kUnits * sizeof(float)));
    CU(cudaMalloc(&y, kBatch * sizeof(int)));
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        int n = (int)count, at = step * kBatch % kRows + (int)first, cells = (n * kUnits + 63) / 64;
        CU(cudaMemcpy(x, &X[at * kIn], n * kIn * sizeof(float), cudaMemcpyHostToDevice));
        CU(cudaMemcpy(y, &Y[at], n * sizeof(int), cudaMemcpyHostToDevice));
        project<<<cells, 64>>>(x, w1.w, z, n);
        moments<<<1, kUnits>>>(z, sums, n);
        DDP_REDUCE(sums, 2 * kUnits, DDP_FLOAT32, DDP_OP_SUM, 0);
        normalise<<<cells, 64>>>(z, sums, gamma.w, beta.w, zn, a, kBatch, n);
        classify<<<1, kBatch>>>(a, w2.w, y, dz, loss, n);
        classGrad<<<1, kClasses * kUnits>>>(a, dz, w2.g, n);
        normGrad<<<1, kUnits>>>(dz, w2.w, a, zn, d, gamma.g, beta.g, back_sums, n);
        DDP_REDUCE(back_sums, 2 * kUnits, DDP_FLOAT32, DDP_OP_MEAN, 0);
        normBack<<<cells, 64>>>(d, zn, sums, back_sums, gamma.w, kBatch, n);
        projectGrad<<<(kIn * kUnits + 63) / 64, 64>>>(x, d, w1.g, n);
        DDP_STEP(0);
        update(w1, 0.1f);
        update(gamma, 0.1f);
        update(beta, 0.1f);
        update(w2, 0.1f);
        std::vector<float> l(n);
        CU(cudaMemcpy(l.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost));
        float mean = 0;
        for (float v : l) mean += v / n;
        DDP_MEAN_AS("loss", &mean);
        if (DDP_RANK() == 0 && step % 10 == 0) std::printf("step %d loss %.4f\n", step, mean);
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::vector<float> h(kIn * kUnits);
        auto put = [&](const float *p, int n) { CU(cudaMemcpy(h.data(), p, n * sizeof(float), cudaMemcpyDeviceToHost)); std::fwrite(h.data(), sizeof(float), n, f); };
        put(w1.w, w1.size), put(gamma.w, gamma.size), put(beta.w, beta.size), put(w2.w, w2.size);
        std::fclose(f);
    }
    return 0;
}
