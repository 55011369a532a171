// An Elman network on the adding problem. Gradients are clipped by their global norm; SGD with momentum.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

constexpr int kT = 8, kH = 8, kBatch = 32, kData = 512, kSteps = 120;
constexpr int kU = 2 * kH, kW = kH * kH, kP = kU + kW + kH + kH + 1; // inputs, recurrence, bias, readout, bias

__global__ void bptt(const float *x, const float *y, const float *p, float *rows, float *loss, float inv)
{
    const float *u = p, *w = u + kU, *b = w + kW, *o = b + kH;
    int n = blockIdx.x;
    float h[kT + 1][kH] = {}, *g = rows + n * kP, dh[kH];
    for (int t = 0; t < kT; ++t)
        for (int j = 0; j < kH; ++j) {
            float s = b[j];
            for (int i = 0; i < 2; ++i)
                s += x[(n * kT + t) * 2 + i] * u[i * kH + j];
            for (int i = 0; i < kH; ++i)
                s += h[t][i] * w[i * kH + j];
            h[t + 1][j] = tanhf(s);
        }
    float out = o[kH];
    for (int j = 0; j < kH; ++j)
        out += h[kT][j] * o[j];
    float e = out - y[n];
    loss[n] = e * e;
    for (int i = 0; i < kP; ++i)
        g[i] = 0;
    e *= 2 * inv;
    g[kP - 1] = e;
    for (int j = 0; j < kH; ++j) {
        g[kU + kW + kH + j] = e * h[kT][j];
        dh[j] = e * o[j];
    }
    for (int t = kT - 1; t >= 0; --t) {
        float da[kH], next[kH] = {};
        for (int j = 0; j < kH; ++j) {
            da[j] = dh[j] * (1 - h[t + 1][j] * h[t + 1][j]);
            g[kU + kW + j] += da[j];
            for (int i = 0; i < 2; ++i)
                g[i * kH + j] += da[j] * x[(n * kT + t) * 2 + i];
            for (int i = 0; i < kH; ++i) {
                g[kU + i * kH + j] += da[j] * h[t][i];
                next[i] += da[j] * w[i * kH + j];
            }
        }
        for (int j = 0; j < kH; ++j)
            dh[j] = next[j];
    }
}

__global__ void reduce_rows(const float *rows, float *g, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kP)
        return;
    float s = 0;
    for (int n = 0; n < count; ++n)
        s += rows[n * kP + i];
    g[i] = s;
}

__global__ void squared_norm(const float *g, float *out)
{
    __shared__ float part[64];
    float s = 0;
    for (int i = threadIdx.x; i < kP; i += 64)
        s += g[i] * g[i];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int k = 32; k > 0; k /= 2) {
        if (threadIdx.x < k)
            part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *out = part[0];
}

__global__ void clip(float *g, const float *norm2, float limit)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float norm = sqrtf(*norm2);
    if (i < kP && norm > limit)
        g[i] *= limit / norm;
}

__global__ void sgd(float *w, const float *g, float *m, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kP)
        return;
    m[i] = .9f * m[i] + g[i];
    w[i] -= rate * m[i];
}

struct Buffer {
    float *p = nullptr;
    explicit Buffer(size_t n) { cudaMalloc(&p, n * 4), cudaMemset(p, 0, n * 4); }
    explicit Buffer(const std::vector<float> &v) : Buffer(v.size())
    {
        cudaMemcpy(p, v.data(), v.size() * 4, cudaMemcpyHostToDevice);
    }
    operator float *() const { return p; }
};

int main()
{
    std::mt19937 rng(31);
    std::uniform_real_distribution<float> uniform(-.5f, .5f);
    std::vector<float> hx(kData * kT * 2), hy(kData), hp(kP);
    for (int n = 0; n < kData; ++n) {
        int a = rng() % (kT / 2), b = kT / 2 + rng() % (kT / 2);
        for (int t = 0; t < kT; ++t) {
            hx[(n * kT + t) * 2] = uniform(rng);
            hx[(n * kT + t) * 2 + 1] = t == a || t == b;
        }
        hy[n] = hx[(n * kT + a) * 2] + hx[(n * kT + b) * 2];
    }
    for (auto &v : hp)
        v = uniform(rng);
    for (int i = kU + kW + kH; i < kP; ++i)
        hp[i] *= .2f;
    Buffer x(hx), y(hy), p(hp), g(kP), m(kP), rows(kBatch * kP), loss(kBatch), norm(1);
    DDP_PARAMETER(p.p, kP, DDP_FLOAT32);
    DDP_GRADIENT(g.p, kP, DDP_FLOAT32);
    for (int step = 0; step < kSteps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        size_t at = step * kBatch % kData + first;
        bptt<<<count, 1>>>(x + at * kT * 2, y + at, p, rows, loss, 1.f / count);
        reduce_rows<<<4, 32>>>(rows, g, count);
        squared_norm<<<1, 64>>>(g, norm);
        clip<<<4, 32>>>(g, norm, .1f);
        DDP_STEP(0);
        sgd<<<4, 32>>>(p, g, m, .08f);
        if (step % 20 == 0 || step == kSteps - 1) {
            std::vector<float> l(count);
            cudaMemcpy(l.data(), loss, count * 4, cudaMemcpyDeviceToHost);
            float mean = 0;
            for (float v : l)
                mean += v / count;
            DDP_MEAN_AS("mse", &mean);
            if (DDP_RANK() == 0)
                std::printf("step %d mse %.7g\n", step, mean);
        }
    }
}
