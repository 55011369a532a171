/* Inverse kinematics of a two-joint arm, one hidden layer. Weights are updated inside the backward pass, which keeps no
 * gradient in memory. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define NI 4
#define NH 32
#define NO 2
#define BATCH 40
#define SAMPLES 400

#define TRY(x) do { cudaError_t err__ = (x); if (err__) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err__)); exit(3); } } while (0)

struct linear {
    int in, out;
    float *w;      /* out x (in + 1), the last column is the bias */
    float *cache;  /* mean square of past derivatives */
};

__global__ void k_forward(const float *x, const float *w, float *y, int in, int out, int n, int squash)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    int s = i / out, o = i % out;
    const float *row = w + o * (in + 1);
    float a = row[in];
    for (int k = 0; k < in; ++k) a += row[k] * x[s * in + k];
    y[i] = squash ? tanhf(a) : a;
}

__global__ void k_error(const float *y, const float *goal, float *d, float *sq, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * NO) return;
    float e = y[i] - goal[i];
    sq[i] = e * e;
    d[i] = e / n;
}

__global__ void k_backward(const float *w, const float *d, const float *act, float *dprev, int in, int out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    int s = i / in, k = i % in;
    float a = 0;
    for (int o = 0; o < out; ++o) a += w[o * (in + 1) + k] * d[s * out + o];
    dprev[i] = a * (1.0f - act[i] * act[i]);
}

__global__ void k_learn(float *w, float *cache, const float *x, const float *d, int in, int out, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= out * (in + 1)) return;
    int o = i / (in + 1), k = i % (in + 1);
    float g = 0;
    for (int s = 0; s < n; ++s) g += d[s * out + o] * (k < in ? x[s * in + k] : 1.0f);
    cache[i] = 0.9f * cache[i] + 0.1f * g * g;
    w[i] -= rate * g / (sqrtf(cache[i]) + 0.01f);
}

static int blocks(int n) { return (n + 63) / 64; }

static unsigned g_state = 2463534242u;
static float draw(float lo, float hi)
{
    g_state ^= g_state << 13;
    g_state ^= g_state >> 17;
    g_state ^= g_state << 5;
    return lo + (hi - lo) * (g_state >> 8) / 16777216.0f;
}

static struct linear linear_new(int in, int out)
{
    struct linear l;
    int n = out * (in + 1);
    float *h = (float *)malloc(n * sizeof(float));
    l.in = in;
    l.out = out;
    for (int i = 0; i < n; ++i) h[i] = draw(-1, 1) / sqrtf((float)in);
    TRY(cudaMalloc((void **)&l.w, n * sizeof(float)));
    TRY(cudaMalloc((void **)&l.cache, n * sizeof(float)));
    TRY(cudaMemset(l.cache, 0, n * sizeof(float)));
    TRY(cudaMemcpy(l.w, h, n * sizeof(float), cudaMemcpyHostToDevice));
    free(h);
    DDP_PARAMETER(l.w, n, DDP_FLOAT32);
    DDP_STATE(l.cache, n, DDP_FLOAT32);
    return l;
}

static void linear_write(const struct linear *l, FILE *f)
{
    int n = l->out * (l->in + 1);
    float *h = (float *)malloc(n * sizeof(float));
    TRY(cudaMemcpy(h, l->w, n * sizeof(float), cudaMemcpyDeviceToHost));
    if (f != NULL) fwrite(h, sizeof(float), n, f);
    free(h);
}

int main(int argc, char **argv)
{
    static float hx[SAMPLES * NI], hy[SAMPLES * NO], hs[BATCH * NO];
    for (int i = 0; i < SAMPLES; ++i) {
        float a = draw(-1.2f, 1.2f), b = draw(0.2f, 2.0f);
        float px = cosf(a) + 0.8f * cosf(a + b), py = sinf(a) + 0.8f * sinf(a + b);
        hx[i * NI] = px; hx[i * NI + 1] = py; hx[i * NI + 2] = px * px + py * py - 1.5f; hx[i * NI + 3] = px * py;
        hy[i * NO] = a; hy[i * NO + 1] = b - 1;
    }
    float *x, *y, *h, *o, *d_out, *d_hid, *sq;
    TRY(cudaMalloc((void **)&x, sizeof hx));
    TRY(cudaMalloc((void **)&y, sizeof hy));
    TRY(cudaMalloc((void **)&h, BATCH * NH * 4));
    TRY(cudaMalloc((void **)&o, BATCH * NO * 4));
    TRY(cudaMalloc((void **)&d_out, BATCH * NO * 4));
    TRY(cudaMalloc((void **)&d_hid, BATCH * NH * 4));
    TRY(cudaMalloc((void **)&sq, BATCH * NO * 4));
    TRY(cudaMemcpy(x, hx, sizeof hx, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(y, hy, sizeof hy, cudaMemcpyHostToDevice));
    struct linear hidden = linear_new(NI, NH), output = linear_new(NH, NO);

    for (int it = 0; it < 60; ++it) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (size_t)(it % (SAMPLES / BATCH)) * BATCH + first;
        int n = (int)count;
        const float *bx = x + at * NI;
        k_forward<<<blocks(n * NH), 64>>>(bx, hidden.w, h, NI, NH, n, 1);
        k_forward<<<blocks(n * NO), 64>>>(h, output.w, o, NH, NO, n, 0);
        k_error<<<blocks(n * NO), 64>>>(o, y + at * NO, d_out, sq, n);
        k_backward<<<blocks(n * NH), 64>>>(output.w, d_out, h, d_hid, NH, NO, n);
        k_learn<<<blocks(NO * (NH + 1)), 64>>>(output.w, output.cache, h, d_out, NH, NO, n, 0.01f);
        k_learn<<<blocks(NH * (NI + 1)), 64>>>(hidden.w, hidden.cache, bx, d_hid, NI, NH, n, 0.01f);
        DDP_STEP_PARAMETERS(0);
        if (it % 20 == 0 || it == 59) {
            float mean = 0;
            TRY(cudaMemcpy(hs, sq, n * NO * 4, cudaMemcpyDeviceToHost));
            for (int i = 0; i < n * NO; ++i) mean += hs[i] / n;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0) printf("%d: squared angle error %.4f\n", it, mean);
        }
    }
    FILE *f = argc > 1 && DDP_RANK() == 0 ? fopen(argv[1], "wb") : NULL;
    linear_write(&hidden, f);
    linear_write(&output, f);
    if (f != NULL) fclose(f);
    return 0;
}
