// Factorisation machine for click prediction, with the stochastic Polyak step size (loss / squared gradient norm).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#include "ddprun.h"

#define CHECK_CUDA(x)                                                                \
    do {                                                                             \
        cudaError_t s__ = (x);                                                       \
        if (s__ != cudaSuccess) {                                                    \
            std::fprintf(stderr, "%d: %s\n", __LINE__, cudaGetErrorString(s__));     \
            std::exit(1);                                                            \
        }                                                                            \
    } while (0)

constexpr int kFields = 5, kPerField = 12, kVocab = kFields * kPerField, kFactors = 6;
constexpr int kBatch = 72, kClicks = 720, kSteps = 60;
constexpr int kTheta = kVocab * kFactors + kVocab + 1; // factors, linear weights, bias

template <int N> struct Lane {
    static __device__ float dot(const float *a, const float *b)
    {
        float s = 0.0f;
#pragma unroll
        for (int i = 0; i < N; ++i)
            s += a[i] * b[i];
        return s;
    }
};

struct View { // what lies where in theta and in its gradient
    float *base;
    __device__ float *factor(int id) const { return base + id * kFactors; }
    __device__ float &linear(int id) const { return base[kVocab * kFactors + id]; }
    __device__ float &bias() const { return base[kTheta - 1]; }
};

__global__ void fm_forward(View theta, const int *ids, const float *click, float *sums, float *dscore, float *loss, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n)
        return;
    const int *row = ids + r * kFields;
    float *s = sums + r * kFactors, score = theta.bias(), own = 0.0f;
    for (int k = 0; k < kFactors; ++k)
        s[k] = 0.0f;
    for (int f = 0; f < kFields; ++f) {
        score += theta.linear(row[f]);
        for (int k = 0; k < kFactors; ++k)
            s[k] += theta.factor(row[f])[k];
        own += Lane<kFactors>::dot(theta.factor(row[f]), theta.factor(row[f]));
    }
    score += 0.5f * (Lane<kFactors>::dot(s, s) - own);
    float p = 1.0f / (1.0f + expf(-score));
    dscore[r] = (p - click[r]) / n;
    loss[r] = fmaxf(score, 0.0f) - score * click[r] + log1pf(expf(-fabsf(score)));
}

// One block for each id of the vocabulary; threads are factors, the linear weight and (block 0) the bias.
__global__ void fm_backward(View theta, View grad, const int *ids, const float *sums, const float *dscore, int n)
{
    int id = blockIdx.x, k = threadIdx.x;
    float g = 0.0f;
    for (int r = 0; r < n; ++r)
        if (k == kFactors + 1) {
            g += dscore[r];
        } else if (ids[r * kFields + id / kPerField] == id) {
            g += k < kFactors ? dscore[r] * (sums[r * kFactors + k] - theta.factor(id)[k]) : dscore[r];
        }
    if (k < kFactors)
        grad.factor(id)[k] = g;
    else if (k == kFactors)
        grad.linear(id) = g;
    else if (id == 0)
        grad.bias() = g;
}

__global__ void squared_norm(const float *g, float *out, int n)
{
    __shared__ float part[128];
    float s = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        s += g[i] * g[i];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *out = part[0];
}

__global__ void mean_of(const float *v, float *out, int n)
{
    if (threadIdx.x == 0) {
        float s = 0.0f;
        for (int i = 0; i < n; ++i)
            s += v[i];
        *out = s / n;
    }
}

__global__ void polyak_update(float *theta, const float *g, const float *loss, const float *norm2, float damp, float cap,
                              int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float step = fminf(damp * *loss / (*norm2 + 1e-8f), cap);
        theta[i] -= step * g[i];
    }
}

template <typename T> T *device_copy(const std::vector<T> &v)
{
    T *p;
    CHECK_CUDA(cudaMalloc(&p, v.size() * sizeof(T)));
    CHECK_CUDA(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

int main(int argc, char **argv)
{
    unsigned seed = 12;
    auto uniform = [&seed]() {
        seed = seed * 214013u + 2531011u;
        return ((seed >> 7) & 0x1ffffff) / 33554432.0f;
    };

    std::vector<float> taste(kVocab * 2), click(kClicks), init(kTheta);
    for (float &t : taste)
        t = 2.0f * uniform() - 1.0f;
    std::vector<int> ids(kClicks * kFields);
    for (int r = 0; r < kClicks; ++r) {
        float a = 0.0f, b = 0.0f, own = 0.0f;
        for (int f = 0; f < kFields; ++f) {
            int id = f * kPerField + std::min(kPerField - 1, (int)(uniform() * uniform() * kPerField));
            ids[r * kFields + f] = id;
            a += taste[2 * id];
            b += taste[2 * id + 1];
            own += taste[2 * id] * taste[2 * id + 1];
        }
        click[r] = a * b - own + 0.3f * (uniform() - 0.5f) > 0.0f ? 1.0f : 0.0f;
    }
    for (int i = 0; i < kTheta; ++i)
        init[i] = i < kVocab * kFactors ? 0.6f * (uniform() - 0.5f) : 0.0f;

    int *d_ids = device_copy(ids);
    float *d_click = device_copy(click), *theta = device_copy(init);
    float *grad = device_copy(std::vector<float>(kTheta, 0.0f));
    float *sums = device_copy(std::vector<float>(kBatch * kFactors)), *dscore = device_copy(std::vector<float>(kBatch));
    float *row_loss = device_copy(std::vector<float>(kBatch)), *batch_loss = device_copy(std::vector<float>(1));
    float *norm2 = device_copy(std::vector<float>(1));
    DDP_PARAMETER(theta, kTheta, DDP_TYPE_OF(theta));
    DDP_GRADIENT(grad, kTheta, DDP_TYPE_OF(grad));

    for (int step = 0; step < kSteps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        int at = step * kBatch % kClicks + (int)first, n = (int)count;
        const int *row_ids = d_ids + at * kFields;

        fm_forward<<<(n + 31) / 32, 32>>>(View{theta}, row_ids, d_click + at, sums, dscore, row_loss, n);
        fm_backward<<<kVocab, kFactors + 2>>>(View{theta}, View{grad}, row_ids, sums, dscore, n);
        mean_of<<<1, 32>>>(row_loss, batch_loss, n);
        DDP_STEP(0);
        squared_norm<<<1, 128>>>(grad, norm2, kTheta);
        polyak_update<<<(kTheta + 127) / 128, 128>>>(theta, grad, batch_loss, norm2, 0.25f, 12.0f, kTheta);

        if (step % 10 == 0 || step + 1 == kSteps) {
            float loss;
            CHECK_CUDA(cudaMemcpy(&loss, batch_loss, sizeof(loss), cudaMemcpyDeviceToHost));
            DDP_MEAN_AS("loss", &loss);
            if (DDP_RANK() == 0)
                std::printf("step %2d loss %.4f\n", step, loss);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        std::vector<float> out(kTheta);
        CHECK_CUDA(cudaMemcpy(out.data(), theta, kTheta * sizeof(float), cudaMemcpyDeviceToHost));
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(out.data(), sizeof(float), kTheta, f);
        std::fclose(f);
    }
    return 0;
}
