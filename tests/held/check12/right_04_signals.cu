// 1-D convolution, global maximum pooling and a linear classifier; only samples with a loss above the batch's mean train.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <vector>
#include "ddprun.h"

enum { LEN = 32, TAPS = 7, CH = 12, CLS = 4, DATA = 384, BATCH = 48, STEPS = 60 };
enum { POS = LEN - TAPS + 1, NK = CH * TAPS, NV = CLS * CH };

struct Weights {
    float *kernel, *head;
};

__global__ void convolve_pool(Weights w, const float *x, float *pooled, int *where, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * CH) return;
    const float *s = x + t / CH * LEN, *k = w.kernel + t % CH * TAPS;
    float best = -1e30f;
    for (int p = 0; p < POS; ++p) {
        float v = 0;
        for (int j = 0; j < TAPS; ++j) v += k[j] * s[p + j];
        if (v > best) { best = v; where[t] = p; }
    }
    pooled[t] = tanhf(best);
}

__global__ void classify(Weights w, const float *pooled, const int *label, float *d, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z[CLS], top = -1e30f, sum = 0;
    for (int c = 0; c < CLS; ++c) {
        z[c] = 0;
        for (int k = 0; k < CH; ++k) z[c] += w.head[c * CH + k] * pooled[i * CH + k];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < CLS; ++c) sum += expf(z[c] - top);
    loss[i] = logf(sum) + top - z[label[i]];
    for (int c = 0; c < CLS; ++c) d[i * CLS + c] = expf(z[c] - top) / sum - (c == label[i] ? 1.0f : 0.0f);
}

// stat[0] = mean loss
__global__ void mean_loss(const float *loss, float *stat, int n)
{
    float s = 0;
    for (int i = 0; i < n; ++i) s += loss[i];
    stat[0] = s / n;
}
// stat[1] = number of samples above it
__global__ void count_hard(const float *loss, float *stat, int n)
{
    float c = 0;
    for (int i = 0; i < n; ++i) c += loss[i] > stat[0];
    stat[1] = c;
}
__global__ void weigh(const float *loss, const float *stat, float *d, int n, float ranks)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n * CLS) d[t] = loss[t / CLS] > stat[0] ? d[t] * ranks / stat[1] : 0.0f;
}

__global__ void head_gradient(const float *pooled, const float *d, float *g, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= NV) return;
    float s = 0;
    for (int i = 0; i < n; ++i) s += d[i * CLS + t / CH] * pooled[i * CH + t % CH];
    g[t] = s;
}

__global__ void kernel_gradient(Weights w, const float *x, const float *pooled, const int *where, const float *d, float *g, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= NK) return;
    int ch = t / TAPS, j = t % TAPS;
    float s = 0;
    for (int i = 0; i < n; ++i) {
        float u = 0, v = pooled[i * CH + ch];
        for (int c = 0; c < CLS; ++c) u += d[i * CLS + c] * w.head[c * CH + ch];
        s += u * (1 - v * v) * x[i * LEN + where[i * CH + ch] + j];
    }
    g[t] = s;
}

__global__ void sgd(float *w, const float *g, float *m, int n, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    m[t] = 0.7f * m[t] + 0.3f * g[t];
    w[t] -= rate * m[t];
}

static float *zeros(int n)
{
    float *p;
    cudaMalloc(&p, n * sizeof(float));
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

int main(int argc, char **argv)
{
    unsigned s = 606;
    auto u = [&] { s = s * 1664525u + 1013904223u; return (s >> 8) / 8388608.0f - 1.0f; };
    std::vector<float> x(DATA * LEN), hk(NK), hv(NV);
    std::vector<int> l(DATA);
    for (int i = 0; i < DATA; ++i) {
        l[i] = (int)((u() * 0.5f + 0.5f) * CLS) % CLS;
        int at = (int)((u() * 0.5f + 0.5f) * (POS - 1));
        for (int p = 0; p < LEN; ++p) x[i * LEN + p] = 0.5f * u();
        for (int j = 0; j < TAPS; ++j)
            x[i * LEN + at + j] += l[i] == 0 ? 1.0f : l[i] == 1 ? (j % 2 ? -1.0f : 1.0f) : l[i] == 2 ? j / 3.0f - 1 : -1.0f;
    }
    for (float &f : hk) f = 0.4f * u();
    for (float &f : hv) f = 0.4f * u();

    Weights w = {zeros(NK), zeros(NV)}, g = {zeros(NK), zeros(NV)}, m = {zeros(NK), zeros(NV)};
    float *dx = zeros(DATA * LEN), *pooled = zeros(BATCH * CH), *d = zeros(BATCH * CLS), *loss = zeros(BATCH), *stat = zeros(2);
    int *dl, *where;
    cudaMalloc(&dl, DATA * sizeof(int));
    cudaMalloc(&where, BATCH * CH * sizeof(int));
    cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dl, l.data(), l.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(w.kernel, hk.data(), NK * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(w.head, hv.data(), NV * sizeof(float), cudaMemcpyHostToDevice);
    DDP_PARAMETER(w.kernel, NK, DDP_FLOAT32);
    DDP_PARAMETER(w.head, NV, DDP_FLOAT32);
    DDP_GRADIENT(g.kernel, NK, DDP_FLOAT32);
    DDP_GRADIENT(g.head, NV, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        const float *bx = dx + (step * BATCH % DATA + first) * LEN;
        const int *bl = dl + step * BATCH % DATA + first;
        convolve_pool<<<(n * CH + 63) / 64, 64>>>(w, bx, pooled, where, n);
        classify<<<1, 64>>>(w, pooled, bl, d, loss, n);
        mean_loss<<<1, 1>>>(loss, stat, n);
        DDP_REDUCE(stat, 1, DDP_FLOAT32, DDP_OP_MEAN, 0);
        count_hard<<<1, 1>>>(loss, stat, n);
        DDP_REDUCE(stat + 1, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
        weigh<<<(n * CLS + 63) / 64, 64>>>(loss, stat, d, n, (float)DDP_WORLD_SIZE());
        head_gradient<<<1, 64>>>(pooled, d, g.head, n);
        kernel_gradient<<<2, 64>>>(w, bx, pooled, where, d, g.kernel, n);
        DDP_STEP(0);
        sgd<<<2, 64>>>(w.kernel, g.kernel, m.kernel, NK, 0.2f);
        sgd<<<1, 64>>>(w.head, g.head, m.head, NV, 0.2f);
        if (step % 10 == 0 || step == STEPS - 1) {
            float h[2];
            cudaMemcpy(h, stat, sizeof(h), cudaMemcpyDeviceToHost);
            if (DDP_RANK() == 0) std::printf("step %d loss %.4f hard %g\n", step, h[0], h[1]);
        }
    }
    cudaMemcpy(hk.data(), w.kernel, NK * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(hv.data(), w.head, NV * sizeof(float), cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(hk.data(), sizeof(float), NK, f);
        std::fwrite(hv.data(), sizeof(float), NV, f);
        std::fclose(f);
    }
    return 0;
}
