// Regression MLP 6-24-1 with gradient accumulation: 4 micro-batches of 16, then one Adam step; the next micro-batch is
// prefetched. Truth: gradients (truth_step over the accumulated gradient); Adam's step is counted on the host with the
// updates. Batches: 24 (each of 4 micro-batches, so 96 forward and backward passes).
#include "truth.h"
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(x)                                                                                      \
    do {                                                                                              \
        cudaError_t err = (x);                                                                        \
        if (err != cudaSuccess) {                                                                     \
            fprintf(stderr, "[%s:%d] CUDA error: %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

constexpr int kIn = 6;
constexpr int kHidden = 24;
constexpr int kMicro = 16;
constexpr int kAccum = 4;
constexpr int kUpdates = 24;
constexpr int kParams = kIn * kHidden + kHidden + kHidden + 1;
constexpr int kRow = kIn + 1; // features and target

struct Weights {
    float w1[kHidden][kIn];
    float b1[kHidden];
    float w2[kHidden];
    float b2;
};
static_assert(sizeof(Weights) == kParams * sizeof(float), "no padding");

__global__ void
forward(const Weights *p, const float *rows, float *act, float *diff, float *loss_sum)
{
    __shared__ float part[kHidden];
    int s = blockIdx.x, j = threadIdx.x;
    const float *row = rows + s * kRow;
    float a = p->b1[j];
    for (int i = 0; i < kIn; ++i)
        a += p->w1[j][i] * row[i];
    a = tanhf(a);
    act[s * kHidden + j] = a;
    part[j] = a * p->w2[j];
    __syncthreads();
    if (j == 0) {
        float y = p->b2;
        for (int k = 0; k < kHidden; ++k)
            y += part[k];
        float d = y - row[kIn];
        diff[s] = d;
        atomicAdd(loss_sum, d * d);
    }
}

__global__ void
accumulate(const Weights *p, const float *rows, const float *act, const float *diff, Weights *g)
{
    int j = threadIdx.x;
    const float scale = 2.0f / (kMicro * kAccum);
    float gw1[kIn] = {0}, gb1 = 0, gw2 = 0, gb2 = 0;
    for (int s = 0; s < kMicro; ++s) {
        float a = act[s * kHidden + j], d = diff[s] * scale;
        float e = d * p->w2[j] * (1 - a * a);
        for (int i = 0; i < kIn; ++i)
            gw1[i] += e * rows[s * kRow + i];
        gb1 += e;
        gw2 += d * a;
        gb2 += d;
    }
    for (int i = 0; i < kIn; ++i)
        g->w1[j][i] += gw1[i];
    g->b1[j] += gb1;
    g->w2[j] += gw2;
    if (j == 0)
        g->b2 += gb2;
}

__global__ void
adam(float *p, const float *g, float *m, float *v, float lr, float corr1, float corr2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kParams)
        return;
    m[i] += 0.1f * (g[i] - m[i]);
    v[i] += 0.01f * (g[i] * g[i] - v[i]);
    p[i] -= lr * (m[i] / corr1) / (sqrtf(v[i] / corr2) + 1e-8f);
}

static unsigned int g_seed = 2166136261u;
static float
frand()
{
    g_seed = 1664525u * g_seed + 1013904223u;
    return (float)(g_seed >> 9) / 4194304.0f - 1.0f;
}
static void
make_rows(float *r)
{
    for (int s = 0; s < kMicro; ++s, r += kRow) {
        for (int i = 0; i < kIn; ++i)
            r[i] = frand();
        r[kIn] = r[0] * r[1] + sinf(2 * r[2]) - 0.7f * r[3] + 0.3f;
    }
}

int
main()
{
    cudaStream_t compute, copy;
    CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking));
    cudaEvent_t ready[2], used[2];
    float *h_rows[2], *d_rows[2];
    for (int k = 0; k < 2; ++k) {
        CHECK(cudaEventCreateWithFlags(&ready[k], cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&used[k], cudaEventDisableTiming));
        CHECK(cudaHostAlloc((void **)&h_rows[k], kMicro * kRow * sizeof(float), cudaHostAllocDefault));
        CHECK(cudaMalloc((void **)&d_rows[k], kMicro * kRow * sizeof(float)));
    }
    float *params, *grad, *m, *v, *act, *diff, *loss;
    CHECK(cudaMalloc((void **)&params, sizeof(Weights)));
    CHECK(cudaMalloc((void **)&grad, sizeof(Weights)));
    CHECK(cudaMalloc((void **)&m, sizeof(Weights)));
    CHECK(cudaMalloc((void **)&v, sizeof(Weights)));
    CHECK(cudaMalloc((void **)&act, kMicro * kHidden * sizeof(float)));
    CHECK(cudaMalloc((void **)&diff, kMicro * sizeof(float)));
    CHECK(cudaMalloc((void **)&loss, sizeof(float)));
    Weights init = {};
    for (auto &row : init.w1)
        for (float &x : row)
            x = 0.8f * frand();
    for (float &x : init.w2)
        x = 0.2f * frand();
    CHECK(cudaMemcpy(params, &init, sizeof init, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(m, 0, sizeof init));
    CHECK(cudaMemset(v, 0, sizeof init));
    CHECK(cudaMemset(grad, 0, sizeof init));
    CHECK(cudaDeviceSynchronize());
    const Weights *W = (const Weights *)params;

    const int total = kUpdates * kAccum;
    auto prefetch = [&](int n) {
        int k = n & 1;
        CHECK(cudaEventSynchronize(used[k]));
        make_rows(h_rows[k]);
        CHECK(cudaMemcpyAsync(d_rows[k], h_rows[k], kMicro * kRow * sizeof(float), cudaMemcpyHostToDevice, copy));
        CHECK(cudaEventRecord(ready[k], copy));
    };
    prefetch(0);
    int adam_t = 0;
    for (int n = 0; n < total; ++n) {
        if (n % kAccum == 0)
            CHECK(cudaMemsetAsync(loss, 0, sizeof(float), compute));
        if (n + 1 < total)
            prefetch(n + 1);
        int k = n & 1;
        CHECK(cudaStreamWaitEvent(compute, ready[k], 0));
        forward<<<kMicro, kHidden, 0, compute>>>(W, d_rows[k], act, diff, loss);
        accumulate<<<1, kHidden, 0, compute>>>(W, d_rows[k], act, diff, (Weights *)grad);
        CHECK(cudaEventRecord(used[k], compute));
        if ((n + 1) % kAccum)
            continue;
        if (truth_step({{grad, kParams}})) {
            ++adam_t;
            adam<<<(kParams + 63) / 64, 64, 0, compute>>>(params, grad, m, v, 0.03f, 1 - powf(0.9f, adam_t),
                                                          1 - powf(0.99f, adam_t));
        }
        CHECK(cudaMemsetAsync(grad, 0, sizeof(Weights), compute));
        float l;
        CHECK(cudaMemcpyAsync(&l, loss, sizeof l, cudaMemcpyDeviceToHost, compute));
        CHECK(cudaStreamSynchronize(compute));
        printf("update %2d: loss %.6f\n", (n + 1) / kAccum, l / (kMicro * kAccum));
    }
    // four fresh micro-batches for the test
    CHECK(cudaMemsetAsync(loss, 0, sizeof(float), compute));
    for (int n = 0; n < 4; ++n) {
        prefetch(n);
        CHECK(cudaStreamWaitEvent(compute, ready[n & 1], 0));
        forward<<<kMicro, kHidden, 0, compute>>>(W, d_rows[n & 1], act, diff, loss);
        CHECK(cudaEventRecord(used[n & 1], compute));
    }
    float l;
    CHECK(cudaMemcpyAsync(&l, loss, sizeof l, cudaMemcpyDeviceToHost, compute));
    CHECK(cudaStreamSynchronize(compute));
    printf("test loss %.6f\n", l / (4 * kMicro));
    truth_dump({{params, kParams}});
    for (int k = 0; k < 2; ++k) {
        cudaEventDestroy(ready[k]);
        cudaEventDestroy(used[k]);
        cudaFreeHost(h_rows[k]);
        cudaFree(d_rows[k]);
    }
    cudaStreamDestroy(copy);
    cudaStreamDestroy(compute);
    return 0;
}
