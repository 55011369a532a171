/* Elman network that counts bits: backpropagation through time, one thread a sequence, one flat block of parameters. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ddprun.h"

#define T 8
#define H 12
#define BATCH 16
#define SEQS 192

typedef struct {
    size_t wx, wh, wo;   /* matrices */
    size_t bh, bo;       /* biases */
    size_t matrices, total;
} layout;

static void layout_init(layout *l)
{
    size_t at = 0;
    l->wx = at; at += H;
    l->wh = at; at += H * H;
    l->wo = at; at += H;
    l->matrices = at;
    l->bh = at; at += H;
    l->bo = at; at += 1;
    l->total = at;
}

static void need(int good, const char *what)
{
    if (!good) { fprintf(stderr, "failed: %s\n", what); exit(1); }
}

/* Each sequence leaves its own derivative in a row of `rows`. */
__global__ void bptt(const float *bits, const float *goal, const float *par, float *rows, float *sq, layout l, int n)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n) return;
    float h[T + 1][H], dh[H], dprev[H];
    float *g = rows + s * l.total;
    for (size_t k = 0; k < l.total; ++k) g[k] = 0;
    for (int j = 0; j < H; ++j) h[0][j] = 0;
    for (int t = 0; t < T; ++t)
        for (int j = 0; j < H; ++j) {
            float a = par[l.bh + j] + par[l.wx + j] * bits[s * T + t];
            for (int k = 0; k < H; ++k) a += par[l.wh + j * H + k] * h[t][k];
            h[t + 1][j] = tanhf(a);
        }
    float o = par[l.bo];
    for (int j = 0; j < H; ++j) o += par[l.wo + j] * h[T][j];
    float e = o - goal[s];
    sq[s] = e * e;
    g[l.bo] = e;
    for (int j = 0; j < H; ++j) {
        g[l.wo + j] = e * h[T][j];
        dh[j] = e * par[l.wo + j];
    }
    for (int t = T - 1; t >= 0; --t) {
        for (int k = 0; k < H; ++k) dprev[k] = 0;
        for (int j = 0; j < H; ++j) {
            float d = dh[j] * (1 - h[t + 1][j] * h[t + 1][j]);
            g[l.bh + j] += d;
            g[l.wx + j] += d * bits[s * T + t];
            for (int k = 0; k < H; ++k) {
                g[l.wh + j * H + k] += d * h[t][k];
                dprev[k] += d * par[l.wh + j * H + k];
            }
        }
        for (int k = 0; k < H; ++k) dh[k] = dprev[k];
    }
}

__global__ void mean_rows(const float *rows, float *grad, int total, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= total) return;
    float a = 0;
    for (int s = 0; s < n; ++s) a += rows[s * total + k];
    grad[k] = a / n;
}

__global__ void norm_of(const float *g, float *norm, int total)
{
    float a = 0;
    for (int k = 0; k < total; ++k) a += g[k] * g[k];
    *norm = sqrtf(a);
}

__global__ void clipped_step(float *par, const float *g, const float *norm, float rate, float limit, int total)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < total) par[k] -= rate * g[k] * (*norm > limit ? limit / *norm : 1.0f);
}

int main(int argc, char **argv)
{
    layout l;
    layout_init(&l);
    float hb[SEQS * T], hg[SEQS], hq[BATCH], *init = (float *)malloc(l.total * sizeof(float));
    unsigned r = 31337;
    for (int s = 0; s < SEQS; ++s) {
        int ones = 0;
        unsigned bias;
        r = r * 69069u + 1;
        bias = 2 + (r >> 20) % 5;
        for (int t = 0; t < T; ++t) {
            r = r * 69069u + 1;
            hb[s * T + t] = (r >> 16) % 8 < bias ? 1.0f : -1.0f;
            ones += hb[s * T + t] > 0;
        }
        hg[s] = ones / 4.0f - 1.0f;
    }
    for (size_t k = 0; k < l.total; ++k) {
        r = r * 69069u + 1;
        init[k] = ((r >> 8) / 16777216.0f - 0.5f) * 0.5f;
    }
    float *bits, *goal, *par, *grad, *rows, *sq, *norm;
    need(cudaMalloc((void **)&bits, sizeof hb) == cudaSuccess, "bits");
    need(cudaMalloc((void **)&goal, sizeof hg) == cudaSuccess, "goal");
    need(cudaMalloc((void **)&par, l.total * sizeof(float)) == cudaSuccess, "par");
    need(cudaMalloc((void **)&grad, l.total * sizeof(float)) == cudaSuccess, "grad");
    need(cudaMalloc((void **)&rows, BATCH * l.total * sizeof(float)) == cudaSuccess, "rows");
    need(cudaMalloc((void **)&sq, sizeof hq) == cudaSuccess, "sq");
    need(cudaMalloc((void **)&norm, sizeof(float)) == cudaSuccess, "norm");
    cudaMemcpy(bits, hb, sizeof hb, cudaMemcpyHostToDevice);
    cudaMemcpy(goal, hg, sizeof hg, cudaMemcpyHostToDevice);
    cudaMemcpy(par, init, l.total * sizeof(float), cudaMemcpyHostToDevice);
    cudaStream_t stream;
    need(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "stream");
    need(cudaDeviceSynchronize() == cudaSuccess, "copy");

    DDP_PARAMETER(par, l.total, DDP_FLOAT32);
    DDP_GRADIENT(grad, l.matrices, DDP_FLOAT32);

    for (int it = 0; it < 60; ++it) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (size_t)it * BATCH % SEQS + first;
        int n = (int)count, total = (int)l.total, grid = (total + 63) / 64;
        bptt<<<1, BATCH, 0, stream>>>(bits + at * T, goal + at, par, rows, sq, l, n);
        mean_rows<<<grid, 64, 0, stream>>>(rows, grad, total, n);
        DDP_STEP(stream);
        norm_of<<<1, 1, 0, stream>>>(grad, norm, total);
        clipped_step<<<grid, 64, 0, stream>>>(par, grad, norm, 0.1f, 1.0f, total);
        if (it % 15 == 0 || it == 59) {
            float m = 0;
            cudaMemcpyAsync(hq, sq, count * sizeof(float), cudaMemcpyDeviceToHost, stream);
            need(cudaStreamSynchronize(stream) == cudaSuccess, "step");
            for (int s = 0; s < n; ++s) m += hq[s] / n;
            DDP_MEAN(&m);
            if (DDP_RANK() == 0) printf("%d: %.4f\n", it, m);
        }
    }
    need(cudaStreamSynchronize(stream) == cudaSuccess, "end");
    cudaMemcpy(init, par, l.total * sizeof(float), cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        need(f != NULL, argv[1]);
        fwrite(init, sizeof(float), l.total, f);
        fclose(f);
    }
    free(init);
    return 0;
}
