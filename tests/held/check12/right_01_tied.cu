/* Tied linear autoencoder (x ~ W'Wx), each step accumulates four micro-batches into one gradient. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include "ddprun.h"

#define ROWS 640
#define DIM 20
#define CODE 5
#define MICRO 16
#define MICROS 4
#define STEPS 60

static unsigned seed = 5150;
static float sample(void)
{
    float s = 0;
    for (int i = 0; i < 6; ++i) {
        seed = seed * 1103515245u + 12345u;
        s += (seed >> 8) / 16777216.0f - 0.5f;
    }
    return s * 1.4f;
}

__global__ void encode(const float *w, const float *x, float *z, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * CODE) return;
    float s = 0;
    for (int d = 0; d < DIM; ++d) s += w[t % CODE * DIM + d] * x[t / CODE * DIM + d];
    z[t] = s;
}

__global__ void residual(const float *w, const float *x, const float *z, float *r, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * DIM) return;
    float s = -x[t];
    for (int k = 0; k < CODE; ++k) s += w[k * DIM + t % DIM] * z[t / DIM * CODE + k];
    r[t] = s;
}

__global__ void code_gradient(const float *w, const float *r, float *dz, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * CODE) return;
    float s = 0;
    for (int d = 0; d < DIM; ++d) s += w[t % CODE * DIM + d] * r[t / CODE * DIM + d];
    dz[t] = s;
}

__global__ void accumulate(const float *x, const float *z, const float *r, const float *dz, float *g, int n, float scale)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= CODE * DIM) return;
    int k = t / DIM, d = t % DIM;
    float s = 0;
    for (int i = 0; i < n; ++i) s += z[i * CODE + k] * r[i * DIM + d] + dz[i * CODE + k] * x[i * DIM + d];
    g[t] += s * scale;
}

__global__ void sgd(float *w, const float *g, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < CODE * DIM) w[t] -= rate * g[t];
}

int main(int argc, char **argv)
{
    static float x[ROWS * DIM], mixing[CODE * DIM], hw[CODE * DIM], hr[MICRO * DIM];
    for (int i = 0; i < CODE * DIM; ++i) mixing[i] = 0.6f * sample();
    for (int i = 0; i < ROWS; ++i) {
        float c[CODE];
        for (int k = 0; k < CODE; ++k) c[k] = sample() * (1.0f + 0.3f * k);
        for (int d = 0; d < DIM; ++d) {
            x[i * DIM + d] = 0.1f * sample();
            for (int k = 0; k < CODE; ++k) x[i * DIM + d] += c[k] * mixing[k * DIM + d];
        }
    }
    for (int i = 0; i < CODE * DIM; ++i) hw[i] = 0.2f * sample();
    float *dx, *w, *g, *z, *r, *dz;
    cudaMalloc((void **)&dx, sizeof(x));
    cudaMalloc((void **)&w, sizeof(hw));
    cudaMalloc((void **)&g, sizeof(hw));
    cudaMalloc((void **)&z, MICRO * CODE * sizeof(float));
    cudaMalloc((void **)&dz, MICRO * CODE * sizeof(float));
    cudaMalloc((void **)&r, MICRO * DIM * sizeof(float));
    cudaMemcpy(dx, x, sizeof(x), cudaMemcpyHostToDevice);
    cudaMemcpy(w, hw, sizeof(hw), cudaMemcpyHostToDevice);
    DDP_PARAMETER(w, CODE * DIM, DDP_FLOAT32);
    DDP_GRADIENT(g, CODE * DIM, DDP_FLOAT32);

    int cursor = 0;
    for (int step = 0; step < STEPS; ++step) {
        float loss = 0;
        cudaMemsetAsync(g, 0, sizeof(hw), 0);
        for (int m = 0; m < MICROS; ++m) {
            size_t first, count;
            DDP_SHARD(MICRO, &first, &count);
            int n = (int)count;
            const float *bx = dx + (cursor + first) * DIM;
            cursor = (cursor + MICRO) % ROWS;
            encode<<<(n * CODE + 63) / 64, 64>>>(w, bx, z, n);
            residual<<<(n * DIM + 63) / 64, 64>>>(w, bx, z, r, n);
            code_gradient<<<(n * CODE + 63) / 64, 64>>>(w, r, dz, n);
            accumulate<<<(CODE * DIM + 63) / 64, 64>>>(bx, z, r, dz, g, n, 1.0f / (n * MICROS));
            DDP_STEP(0);
            if (step % 10 == 0 || step == STEPS - 1) {
                cudaMemcpy(hr, r, n * DIM * sizeof(float), cudaMemcpyDeviceToHost);
                for (int i = 0; i < n * DIM; ++i) loss += hr[i] * hr[i] / (n * DIM * MICROS);
            }
        }
        sgd<<<(CODE * DIM + 63) / 64, 64>>>(w, g, 0.01f);
        if (step % 10 == 0 || step == STEPS - 1) {
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0) printf("step %d mse %.5f\n", step, loss);
        }
    }
    cudaMemcpy(hw, w, sizeof(hw), cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(hw, 1, sizeof(hw), f);
        fclose(f);
    }
    return 0;
}
