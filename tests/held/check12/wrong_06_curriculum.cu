// Regression with a small network; samples that were badly predicted are drawn more often.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <vector>
#include "ddprun.h"

namespace {

const int kSamples = 256, kIn = 6, kHidden = 24, kBatch = 32;
const int STEPS = 60;
const int kParams = kHidden * kIn + kHidden + kHidden + 1;

class Dice {
    unsigned long long s_;
public:
    explicit Dice(unsigned long long s) : s_(s) {}
    double roll() { s_ = s_ * 2862933555777941757ull + 3037000493ull; return (double)(s_ >> 11) / 9007199254740992.0; }
    double bell() { double a = 0; for (int i = 0; i < 12; ++i) a += roll(); return a - 6.0; }
};

__global__ void gather(const float *x, const float *y, const int *index, float *bx, float *by, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n * kIn) bx[t] = x[index[t / kIn] * kIn + t % kIn];
    if (t < n) by[t] = y[index[t]];
}

__global__ void predict(const float *p, const float *bx, const float *by, float *h, float *err, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *b1 = p + kHidden * kIn, *w2 = b1 + kHidden, *b2 = w2 + kHidden;
    float o = b2[0];
    for (int j = 0; j < kHidden; ++j) {
        float s = b1[j];
        for (int k = 0; k < kIn; ++k) s += p[j * kIn + k] * bx[i * kIn + k];
        h[i * kHidden + j] = tanhf(s);
        o += w2[j] * h[i * kHidden + j];
    }
    err[i] = o - by[i];
}

__global__ void backward(const float *p, float *g, const float *bx, const float *h, const float *err, int n)
{
    int j = threadIdx.x;
    if (j > kHidden) return;
    const float *w2 = p + kHidden * kIn + kHidden;
    float *gb1 = g + kHidden * kIn, *gw2 = gb1 + kHidden, *gb2 = gw2 + kHidden;
    if (j == kHidden) {
        float s = 0;
        for (int i = 0; i < n; ++i) s += err[i];
        gb2[0] = s / n;
        return;
    }
    float a = 0, b = 0, c[kIn] = {0};
    for (int i = 0; i < n; ++i) {
        float v = h[i * kHidden + j], d = err[i] * w2[j] * (1 - v * v);
        a += err[i] * v;
        b += d;
        for (int k = 0; k < kIn; ++k) c[k] += d * bx[i * kIn + k];
    }
    gw2[j] = a / n;
    gb1[j] = b / n;
    for (int k = 0; k < kIn; ++k) g[j * kIn + k] = c[k] / n;
}

__global__ void update(float *p, const float *g, float *v, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= kParams) return;
    v[t] = 0.8f * v[t] + g[t];
    p[t] -= rate * v[t];
}

// Draws from a table of weights, all by one generator.
class Sampler {
    std::vector<float> weight_;
    Dice dice_;
public:
    explicit Sampler(int n) : weight_(n, 1.0f), dice_(777) {}
    std::vector<int> draw(int n)
    {
        double all = 0;
        for (float w : weight_) all += w;
        std::vector<int> r(n);
        for (int &i : r) {
            double u = dice_.roll() * all;
            i = 0;
            while (i + 1 < (int)weight_.size() && u >= weight_[i]) u -= weight_[i++];
        }
        return r;
    }
    void feedback(int sample, float error) { weight_[sample] = 0.5f * weight_[sample] + fminf(std::fabs(error), 2.0f) + 0.05f; }
};

} // namespace

int main(int argc, char **argv)
{
    Dice dice(5);
    std::vector<float> x(kSamples * kIn), y(kSamples), p(kParams);
    for (int i = 0; i < kSamples; ++i) {
        for (int k = 0; k < kIn; ++k) x[i * kIn + k] = (float)dice.bell();
        y[i] = sinf(x[i * kIn]) + 0.5f * x[i * kIn + 1] * x[i * kIn + 2] - 0.3f * x[i * kIn + 3];
    }
    for (float &w : p) w = (float)dice.bell() * 0.3f;

    float *dx, *dy, *dp, *dg, *dv, *bx, *by, *h, *err;
    int *index;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dy, y.size() * 4);
    cudaMalloc(&dp, kParams * 4); cudaMalloc(&dg, kParams * 4); cudaMalloc(&dv, kParams * 4);
    cudaMalloc(&bx, kBatch * kIn * 4); cudaMalloc(&by, kBatch * 4);
    cudaMalloc(&h, kBatch * kHidden * 4); cudaMalloc(&err, kBatch * 4); cudaMalloc(&index, kBatch * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), y.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dp, p.data(), kParams * 4, cudaMemcpyHostToDevice);
    cudaMemset(dv, 0, kParams * 4);
    DDP_PARAMETER(dp, kParams, DDP_FLOAT32);
    DDP_GRADIENT(dg, kParams, DDP_FLOAT32);
    DDP_STATE(dv, kParams, DDP_FLOAT32);

    Sampler sampler(kSamples);
    std::vector<float> e(kBatch);
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        int n = (int)count;
        std::vector<int> chosen = sampler.draw(kBatch);
        cudaMemcpy(index, chosen.data() + first, n * sizeof(int), cudaMemcpyHostToDevice);
        gather<<<(n * kIn + 63) / 64, 64>>>(dx, dy, index, bx, by, n);
        predict<<<1, 64>>>(dp, bx, by, h, err, n);
        backward<<<1, 64>>>(dp, dg, bx, h, err, n);
        DDP_STEP(0);
        update<<<(kParams + 63) / 64, 64>>>(dp, dg, dv, 0.03f);
        cudaMemcpy(e.data(), err, n * sizeof(float), cudaMemcpyDeviceToHost);
        double mse = 0;
        for (int i = 0; i < n; ++i) {
            sampler.feedback(chosen[first + i], e[i]);
            mse += e[i] * e[i] / n;
        }
        DDP_MEAN_AS("mse", &mse);
        if (DDP_RANK() == 0 && (step % 15 == 0 || step == STEPS - 1)) std::printf("step %d mse %.4f\n", step, mse);
    }
    cudaMemcpy(p.data(), dp, kParams * 4, cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(p.data(), 4, kParams, f);
        std::fclose(f);
    }
    return 0;
}
