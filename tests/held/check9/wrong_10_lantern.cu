// One-dimensional convolution classifier for light curves; four micro-batches are accumulated for each update.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

#define LEN 40
#define FILTERS 24
#define WIDTH 7
#define OUTLEN (LEN - WIDTH + 1)
#define CLASSES 4
#define MICRO 12
#define ROUNDS 4
#define EXAMPLES 960

// kernels: FILTERS * WIDTH, then FILTERS biases, then FILTERS * CLASSES, then CLASSES
#define OFF_B (FILTERS * WIDTH)
#define OFF_V (OFF_B + FILTERS)
#define OFF_C (OFF_V + FILTERS * CLASSES)
#define TOTAL (OFF_C + CLASSES)

struct Workspace {
    float *pooled;  // rows x FILTERS, log-mean-exp over time
    float *share;   // rows x FILTERS x OUTLEN, derivative of the pooling
    float *dz;      // rows x CLASSES
    float *dpool;   // rows x FILTERS
    float *nll;
};

__global__ void convolve_pool(const float *p, const float *x, Workspace ws, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * FILTERS) return;
    int r = i / FILTERS, f = i % FILTERS;
    float *share = ws.share + i * OUTLEN, top = -1e30f, sum = 0;
    for (int t = 0; t < OUTLEN; ++t) {
        float a = p[OFF_B + f];
        for (int k = 0; k < WIDTH; ++k) a += x[r * LEN + t + k] * p[f * WIDTH + k];
        share[t] = a;
        top = fmaxf(top, a);
    }
    for (int t = 0; t < OUTLEN; ++t) { share[t] = expf(share[t] - top); sum += share[t]; }
    for (int t = 0; t < OUTLEN; ++t) share[t] /= sum;
    ws.pooled[i] = top + logf(sum / OUTLEN);
}

__global__ void classify(const float *p, const int *y, Workspace ws, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float z[CLASSES], top = -1e30f, sum = 0;
    for (int c = 0; c < CLASSES; ++c) {
        z[c] = p[OFF_C + c];
        for (int f = 0; f < FILTERS; ++f) z[c] += ws.pooled[r * FILTERS + f] * p[OFF_V + f * CLASSES + c];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < CLASSES; ++c) sum += expf(z[c] - top);
    ws.nll[r] = logf(sum) + top - z[y[r]];
    for (int c = 0; c < CLASSES; ++c) ws.dz[r * CLASSES + c] = (expf(z[c] - top) / sum - (c == y[r])) / rows;
    for (int f = 0; f < FILTERS; ++f) {
        float a = 0;
        for (int c = 0; c < CLASSES; ++c) a += ws.dz[r * CLASSES + c] * p[OFF_V + f * CLASSES + c];
        ws.dpool[r * FILTERS + f] = a;
    }
}

__global__ void gradients(const float *x, Workspace ws, float *g, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= TOTAL) return;
    float a = 0;
    for (int r = 0; r < rows; ++r) {
        if (i < OFF_B) {
            int f = i / WIDTH, k = i % WIDTH;
            float s = 0;
            for (int t = 0; t < OUTLEN; ++t) s += ws.share[(r * FILTERS + f) * OUTLEN + t] * x[r * LEN + t + k];
            a += s * ws.dpool[r * FILTERS + f];
        } else if (i < OFF_V) a += ws.dpool[r * FILTERS + i - OFF_B];
        else if (i < OFF_C) a += ws.pooled[r * FILTERS + (i - OFF_V) / CLASSES] * ws.dz[r * CLASSES + (i - OFF_V) % CLASSES];
        else a += ws.dz[r * CLASSES + i - OFF_C];
    }
    g[i] = a;
}

__global__ void accumulate(float *total, const float *g, float scale, int fresh)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < TOTAL) total[i] = (fresh ? 0.0f : total[i]) + scale * g[i];
}

__global__ void adagrad(float *p, const float *g, float *h, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= TOTAL) return;
    h[i] += g[i] * g[i];
    p[i] -= rate * g[i] / (sqrtf(h[i]) + 0.01f);
}

static unsigned s0 = 5, s1 = 17;
static float rnd()
{
    s0 = 36969u * (s0 & 65535u) + (s0 >> 16);
    s1 = 18000u * (s1 & 65535u) + (s1 >> 16);
    return ((s0 << 16) + s1) / 2147483648.0f - 1.0f;
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<float> x(EXAMPLES * LEN), init(TOTAL, 0.0f);
    std::vector<int> y(EXAMPLES);
    for (int i = 0; i < EXAMPLES; ++i) {
        y[i] = (i * 7 + i / 11) % CLASSES;
        float at = 12 + 8 * rnd(), phase = 3 * rnd();
        for (int t = 0; t < LEN; ++t) {
            float d = t - at - 8, v = 0;
            if (y[i] == 0) v = 1.5f * expf(-d * d / 6);
            if (y[i] == 1) v = -1.5f * expf(-d * d / 6);
            if (y[i] == 2) v = sinf(1.1f * t + phase);
            x[i * LEN + t] = v + 0.9f * rnd();
        }
    }
    for (int i = 0; i < TOTAL; ++i) if (i < OFF_B || (i >= OFF_V && i < OFF_C)) init[i] = 0.4f * rnd();

    float *p, *g, *gsum, *hist, *dx;
    int *dy;
    Workspace ws;
    cudaMalloc(&p, TOTAL * 4); cudaMalloc(&g, TOTAL * 4); cudaMalloc(&gsum, TOTAL * 4); cudaMalloc(&hist, TOTAL * 4);
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dy, y.size() * 4);
    cudaMalloc(&ws.pooled, MICRO * FILTERS * 4); cudaMalloc(&ws.share, MICRO * FILTERS * OUTLEN * 4);
    cudaMalloc(&ws.dz, MICRO * CLASSES * 4); cudaMalloc(&ws.dpool, MICRO * FILTERS * 4); cudaMalloc(&ws.nll, MICRO * 4);
    cudaMemcpy(p, init.data(), TOTAL * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), y.size() * 4, cudaMemcpyHostToDevice);
    cudaMemset(hist, 0, TOTAL * 4);
    DDP_PARAMETER(p, TOTAL, DDP_FLOAT32);
    DDP_GRADIENT(g, TOTAL, DDP_FLOAT32);

    float hn[MICRO];
    for (int step = 0; step < steps; ++step) {
        double loss = 0;
        for (int m = 0; m < ROUNDS; ++m) {
            size_t first, count;
            DDP_SHARD(MICRO, &first, &count);
            int rows = (int)count, at = (step * ROUNDS + m) * MICRO % EXAMPLES + (int)first;
            convolve_pool<<<(rows * FILTERS + 31) / 32, 32>>>(p, dx + at * LEN, ws, rows);
            classify<<<1, MICRO>>>(p, dy + at, ws, rows);
            gradients<<<(TOTAL + 31) / 32, 32>>>(dx + at * LEN, ws, g, rows);
            accumulate<<<(TOTAL + 31) / 32, 32>>>(gsum, g, 1.0f / ROUNDS, m == 0);
            cudaMemcpy(hn, ws.nll, rows * 4, cudaMemcpyDeviceToHost);
            for (int r = 0; r < rows; ++r) loss += hn[r] / rows / ROUNDS;
        }
        DDP_STEP(0);
        adagrad<<<(TOTAL + 31) / 32, 32>>>(p, gsum, hist, 0.15f);
        DDP_MEAN_AS("nll", &loss);
        if (step % 10 == 9 || step == 0) printf("step %d nll %.4f\n", step + 1, loss);
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        cudaMemcpy(init.data(), p, TOTAL * 4, cudaMemcpyDeviceToHost);
        for (float e : init) fprintf(f, "%.9g\n", e);
        fclose(f);
    }
    return 0;
}
