/* Differentially private SGD on a small tanh network: every example's gradient is clipped, noise is added to the mean. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define D 10
#define H 12
#define P (D * H + H + H + 1)
#define BATCH 50
#define ROWS 400

typedef struct {
    float clip, sigma, rate;
    int steps;
} Options;

static unsigned long long seed = 1442695040888963407ull;
static float flat(void)
{
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return (float)((seed * 2685821657736338717ull) >> 40) / 16777216.0f;
}
static float gauss(void)
{
    float u = flat(), v = flat();
    return sqrtf(-2 * logf(u + 1e-7f)) * cosf(6.2831853f * v);
}

/* One thread, one example: forward, backward, and its own gradient row. */
__global__ void example_gradients(const float *x, const float *y, const float *w, float *rows, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *b = w + D * H, *v = b + H;
    float h[H], out = v[H], *g = rows + (size_t)i * P;
    for (int k = 0; k < H; ++k) {
        float s = b[k];
        for (int j = 0; j < D; ++j) s += x[i * D + j] * w[j * H + k];
        h[k] = tanhf(s);
        out += h[k] * v[k];
    }
    float p = 1 / (1 + expf(-out)), e = p - y[i];
    loss[i] = -(y[i] > 0.5f ? logf(p + 1e-9f) : logf(1 - p + 1e-9f));
    for (int k = 0; k < H; ++k) {
        float d = e * v[k] * (1 - h[k] * h[k]);
        for (int j = 0; j < D; ++j) g[j * H + k] = d * x[i * D + j];
        g[D * H + k] = d;
        g[D * H + H + k] = e * h[k];
    }
    g[P - 1] = e;
}
__global__ void clip_rows(float *rows, float clip)
{
    __shared__ float part[32];
    float *g = rows + (size_t)blockIdx.x * P, s = 0;
    for (int p = threadIdx.x; p < P; p += 32) s += g[p] * g[p];
    part[threadIdx.x] = s;
    __syncthreads();
    s = 0;
    for (int k = 0; k < 32; ++k) s += part[k];
    float scale = s > clip * clip ? clip / sqrtf(s) : 1;
    for (int p = threadIdx.x; p < P; p += 32) g[p] *= scale;
}
__global__ void mean_and_noise(const float *rows, const float *noise, float *grad, float sigma, int n)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= P) return;
    float s = 0;
    for (int i = 0; i < n; ++i) s += rows[(size_t)i * P + p];
    grad[p] = s / n + sigma * noise[p];
}
__global__ void descend(float *w, const float *grad, float rate)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < P) w[p] -= rate * grad[p];
}

int main(int argc, char **argv)
{
    Options o = {0.8f, 0.8f * 1.1f / BATCH, 1.2f, argc > 2 ? atoi(argv[2]) : 60};
    static float x[ROWS * D], y[ROWS], w[P], noise[P], l[BATCH];
    float *dx, *dy, *dw, *grad, *rows, *dnoise, *loss;
    for (int i = 0; i < ROWS; ++i) {
        float s = 0;
        for (int j = 0; j < D; ++j) {
            x[i * D + j] = gauss();
            s += x[i * D + j] * (j % 3 - 1);
        }
        y[i] = s + 0.3f * x[i * D] * x[i * D + 1] > 0 ? 1 : 0;
    }
    for (int p = 0; p < P; ++p) w[p] = 0.3f * gauss();
    cudaMalloc((void **)&dx, sizeof x);
    cudaMalloc((void **)&dy, sizeof y);
    cudaMalloc((void **)&dw, sizeof w);
    cudaMalloc((void **)&grad, sizeof w);
    cudaMalloc((void **)&dnoise, sizeof noise);
    cudaMalloc((void **)&rows, BATCH * sizeof w);
    cudaMalloc((void **)&loss, sizeof l);
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y, sizeof y, cudaMemcpyHostToDevice);
    cudaMemcpy(dw, w, sizeof w, cudaMemcpyHostToDevice);
    DDP_PARAMETER(dw, P, DDP_FLOAT32);
    DDP_GRADIENT(grad, P, DDP_FLOAT32);

    for (int step = 0; step < o.steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (size_t)(step * BATCH % ROWS) + first;
        for (int p = 0; p < P; ++p) noise[p] = gauss();
        cudaMemcpy(dnoise, noise, sizeof noise, cudaMemcpyHostToDevice);
        example_gradients<<<2, 32>>>(dx + at * D, dy + at, dw, rows, loss, (int)count);
        clip_rows<<<(unsigned)count, 32>>>(rows, o.clip);
        mean_and_noise<<<(P + 31) / 32, 32>>>(rows, dnoise, grad, o.sigma, (int)count);
        DDP_STEP(0);
        descend<<<(P + 31) / 32, 32>>>(dw, grad, o.rate);
        if (step % 15 == 14 || step == 0) {
            float mean = 0;
            cudaMemcpy(l, loss, count * sizeof(float), cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < count; ++i) mean += l[i] / count;
            DDP_MEAN(&mean);
            printf("step %d loss %.4f\n", step + 1, mean);
        }
    }
    cudaMemcpy(w, dw, sizeof w, cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(w, 1, sizeof w, f);
        fclose(f);
    }
    return 0;
}
