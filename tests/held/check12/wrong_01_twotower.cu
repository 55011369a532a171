// Two linear towers trained with a softmax over matching pairs (image side x, text side y).
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define NPAIR 512
#define DX 16
#define DY 12
#define DE 8
#define BATCH 32
#define STEPS 60

static unsigned rng_state = 12345u;
static float uniform(void)
{
    rng_state = rng_state * 1664525u + 1013904223u;
    return (float)(rng_state >> 8) / 16777216.0f;
}
static float normal(void)
{
    float s = 0;
    for (int i = 0; i < 12; ++i)
        s += uniform();
    return s - 6.0f;
}

// out[i][e] = sum_d w[e][d] * in[i][d]
__global__ void project(const float *in, const float *w, float *out, int rows, int d)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * DE)
        return;
    int i = t / DE, e = t % DE;
    float s = 0;
    for (int k = 0; k < d; ++k)
        s += w[e * d + k] * in[i * d + k];
    out[t] = s;
}

// one thread a row: p = softmax(row of e f' / tau) - identity, loss of the row
__global__ void match_rows(const float *e, const float *f, float *p, float *loss, int n, float inv_tau)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float top = -1e30f, sum = 0;
    for (int j = 0; j < n; ++j) {
        float s = 0;
        for (int k = 0; k < DE; ++k)
            s += e[i * DE + k] * f[j * DE + k];
        s *= inv_tau;
        p[i * n + j] = s;
        top = fmaxf(top, s);
    }
    for (int j = 0; j < n; ++j)
        sum += expf(p[i * n + j] - top);
    loss[i] = logf(sum) + top - p[i * n + i];
    for (int j = 0; j < n; ++j)
        p[i * n + j] = expf(p[i * n + j] - top) / sum - (i == j ? 1.0f : 0.0f);
}

__global__ void pull_back(const float *p, const float *e, const float *f, float *de, float *df, int n, float inv_tau)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * DE)
        return;
    int i = t / DE, k = t % DE;
    float a = 0, b = 0;
    for (int j = 0; j < n; ++j) {
        a += p[i * n + j] * f[j * DE + k];
        b += p[j * n + i] * e[j * DE + k];
    }
    de[t] = a * inv_tau / n;
    df[t] = b * inv_tau / n;
}

__global__ void weight_gradient(const float *in, const float *dout, float *dw, int rows, int d)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= DE * d)
        return;
    int e = t / d, k = t % d;
    float s = 0;
    for (int i = 0; i < rows; ++i)
        s += dout[i * DE + e] * in[i * d + k];
    dw[t] = s;
}

__global__ void sgd(float *w, const float *dw, float *v, int n, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) {
        v[t] = 0.9f * v[t] + dw[t];
        w[t] -= rate * v[t];
    }
}

static float *device(const float *h, int n)
{
    float *d;
    cudaMalloc(&d, n * sizeof(float));
    if (h)
        cudaMemcpy(d, h, n * sizeof(float), cudaMemcpyHostToDevice);
    else
        cudaMemset(d, 0, n * sizeof(float));
    return d;
}

int main(int argc, char **argv)
{
    static float x[NPAIR * DX], y[NPAIR * DY], a[DY * DX], wu[DE * DX], wv[DE * DY], rows[BATCH];
    for (int i = 0; i < DY * DX; ++i)
        a[i] = normal() * 0.4f;
    for (int i = 0; i < NPAIR; ++i) {
        for (int k = 0; k < DX; ++k)
            x[i * DX + k] = normal();
        for (int j = 0; j < DY; ++j) {
            float s = 0.1f * normal();
            for (int k = 0; k < DX; ++k)
                s += a[j * DX + k] * x[i * DX + k];
            y[i * DY + j] = tanhf(s);
        }
    }
    for (int i = 0; i < DE * DX; ++i)
        wu[i] = 0.15f * normal();
    for (int i = 0; i < DE * DY; ++i)
        wv[i] = 0.15f * normal();

    float *dx = device(x, NPAIR * DX), *dy = device(y, NPAIR * DY);
    float *u = device(wu, DE * DX), *v = device(wv, DE * DY);
    float *gu = device(NULL, DE * DX), *gv = device(NULL, DE * DY);
    float *mu = device(NULL, DE * DX), *mv = device(NULL, DE * DY);
    float *e = device(NULL, BATCH * DE), *f = device(NULL, BATCH * DE);
    float *de = device(NULL, BATCH * DE), *df = device(NULL, BATCH * DE);
    float *p = device(NULL, BATCH * BATCH), *loss = device(NULL, BATCH);
    DDP_PARAMETER(u, DE * DX, DDP_FLOAT32);
    DDP_PARAMETER(v, DE * DY, DDP_FLOAT32);
    DDP_GRADIENT(gu, DE * DX, DDP_FLOAT32);
    DDP_GRADIENT(gv, DE * DY, DDP_FLOAT32);
    DDP_STATE(mu, DE * DX, DDP_FLOAT32);
    DDP_STATE(mv, DE * DY, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (size_t)(step * BATCH) % NPAIR + first;
        int n = (int)count;
        const float *bx = dx + at * DX, *by = dy + at * DY;
        project<<<(n * DE + 63) / 64, 64>>>(bx, u, e, n, DX);
        project<<<(n * DE + 63) / 64, 64>>>(by, v, f, n, DY);
        match_rows<<<1, 64>>>(e, f, p, loss, n, 2.0f);
        pull_back<<<(n * DE + 63) / 64, 64>>>(p, e, f, de, df, n, 2.0f);
        weight_gradient<<<(DE * DX + 63) / 64, 64>>>(bx, de, gu, n, DX);
        weight_gradient<<<(DE * DY + 63) / 64, 64>>>(by, df, gv, n, DY);
        DDP_STEP(0);
        sgd<<<(DE * DX + 63) / 64, 64>>>(u, gu, mu, DE * DX, 0.03f);
        sgd<<<(DE * DY + 63) / 64, 64>>>(v, gv, mv, DE * DY, 0.03f);
        if (step % 10 == 0 || step == STEPS - 1) {
            cudaMemcpy(rows, loss, n * sizeof(float), cudaMemcpyDeviceToHost);
            float s = 0;
            for (int i = 0; i < n; ++i)
                s += rows[i] / n;
            DDP_MEAN(&s);
            if (DDP_RANK() == 0)
                printf("step %d loss %.5f\n", step, s);
        }
    }
    cudaMemcpy(wu, u, sizeof(wu), cudaMemcpyDeviceToHost);
    cudaMemcpy(wv, v, sizeof(wv), cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *o = fopen(argv[1], "wb");
        fwrite(wu, 1, sizeof(wu), o);
        fwrite(wv, 1, sizeof(wv), o);
        fclose(o);
    }
    return 0;
}
