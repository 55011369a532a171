/* One-dimensional convolution, global average pooling and a linear layer: classify waves by their shape. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define LEN 24
#define TAPS 5
#define CH 8
#define KINDS 4
#define WAVES 320
#define BATCH 32
#define OUT_LEN (LEN - TAPS + 1)

/* One block of memory for all parameters, one for all gradients. */
enum {
    CONV_W = 0,
    CONV_B = CONV_W + CH * TAPS,
    FC_W = CONV_B + CH,
    N_PARAMS = FC_W + CH * KINDS,
    FC_B = N_PARAMS,
    ARENA = FC_B + KINDS
};

static unsigned long long rs = 0x123456789abcdefull;
static float rf(void)
{
    rs = rs * 2862933555777941757ull + 3037000493ull;
    return (float)(rs >> 40) / 16777216.0f;
}

__global__ void conv_pool(const float *x, const float *w, float *act, float *pool)
{
    int i = blockIdx.x, c = threadIdx.x;
    float mean = 0;
    for (int t = 0; t < OUT_LEN; ++t) {
        float s = w[CONV_B + c];
        for (int k = 0; k < TAPS; ++k) s += x[i * LEN + t + k] * w[CONV_W + c * TAPS + k];
        s = s > 0 ? s : 0.1f * s;
        act[(i * CH + c) * OUT_LEN + t] = s;
        mean += s / OUT_LEN;
    }
    pool[i * CH + c] = mean;
}
__global__ void classify(const float *pool, const float *w, const int *kind, float *dz, float *loss, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    float z[KINDS], top = -1e30f, sum = 0;
    for (int o = 0; o < KINDS; ++o) {
        z[o] = w[FC_B + o];
        for (int c = 0; c < CH; ++c) z[o] += pool[i * CH + c] * w[FC_W + c * KINDS + o];
        top = fmaxf(top, z[o]);
    }
    for (int o = 0; o < KINDS; ++o) sum += expf(z[o] - top);
    for (int o = 0; o < KINDS; ++o) dz[i * KINDS + o] = (expf(z[o] - top) / sum - (o == kind[i])) / n;
    loss[i] = logf(sum) + top - z[kind[i]];
}
__global__ void fc_gradient(const float *pool, const float *dz, float *g, int n)
{
    int c = blockIdx.x, o = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n; ++i) s += (c < CH ? pool[i * CH + c] : 1.0f) * dz[i * KINDS + o];
    if (c < CH) g[FC_W + c * KINDS + o] = s;
    else g[FC_B + o] = s;
}
__global__ void conv_gradient(const float *x, const float *w, const float *act, const float *dz, float *g, int n)
{
    int c = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n; ++i) {
        float d = 0;
        for (int o = 0; o < KINDS; ++o) d += dz[i * KINDS + o] * w[FC_W + c * KINDS + o] / OUT_LEN;
        for (int t = 0; t < OUT_LEN; ++t) {
            float slope = act[(i * CH + c) * OUT_LEN + t] > 0 ? 1.0f : 0.1f;
            s += d * slope * (k < TAPS ? x[i * LEN + t + k] : 1.0f);
        }
    }
    if (k < TAPS) g[CONV_W + c * TAPS + k] = s;
    else g[CONV_B + c] = s;
}
__global__ void sgd_momentum(float *w, float *v, const float *g, float lr, float mu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= ARENA) return;
    v[i] = mu * v[i] + g[i];
    w[i] -= lr * v[i];
}

static void make_waves(float *x, int *kind)
{
    for (int i = 0; i < WAVES; ++i) {
        float u = rf();
        int k = u < 0.45f ? 0 : u < 0.7f ? 1 : u < 0.9f ? 2 : 3;
        float phase = rf() * LEN, period = 5 + 3 * rf();
        kind[i] = k;
        for (int t = 0; t < LEN; ++t) {
            float a = (t + phase) / period, frac = a - floorf(a), y;
            if (k == 0) y = sinf(6.2831853f * a);
            else if (k == 1) y = frac < 0.5f ? 1 : -1;
            else if (k == 2) y = 2 * frac - 1;
            else y = frac < 0.2f ? 2.0f : 0.0f;
            x[i * LEN + t] = y + 0.3f * (rf() - 0.5f);
        }
    }
}

int main(int argc, char **argv)
{
    static float x[WAVES * LEN], w[ARENA], h_loss[BATCH];
    static int kind[WAVES];
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    float *d_x, *params, *grads, *vel, *act, *pool, *dz, *loss;
    int *d_kind;
    make_waves(x, kind);
    for (int i = 0; i < ARENA; ++i) w[i] = i < CONV_B ? rf() - 0.5f : i >= FC_W && i < FC_B ? 1.5f * (rf() - 0.5f) : 0.0f;
    cudaMalloc((void **)&d_x, sizeof x);
    cudaMalloc((void **)&d_kind, sizeof kind);
    cudaMalloc((void **)&params, ARENA * sizeof(float));
    cudaMalloc((void **)&grads, ARENA * sizeof(float));
    cudaMalloc((void **)&vel, ARENA * sizeof(float));
    cudaMalloc((void **)&act, BATCH * CH * OUT_LEN * sizeof(float));
    cudaMalloc((void **)&pool, BATCH * CH * sizeof(float));
    cudaMalloc((void **)&dz, BATCH * KINDS * sizeof(float));
    cudaMalloc((void **)&loss, BATCH * sizeof(float));
    cudaMemcpy(d_x, x, sizeof x, cudaMemcpyHostToDevice);
    cudaMemcpy(d_kind, kind, sizeof kind, cudaMemcpyHostToDevice);
    cudaMemcpy(params, w, sizeof w, cudaMemcpyHostToDevice);
    cudaMemset(vel, 0, ARENA * sizeof(float));
    DDP_PARAMETER(params, N_PARAMS, DDP_FLOAT32);
    DDP_GRADIENT(grads, N_PARAMS, DDP_FLOAT32);

    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (size_t)(s * BATCH % WAVES) + first;
        int n = (int)count;
        conv_pool<<<n, CH>>>(d_x + at * LEN, params, act, pool);
        classify<<<1, BATCH>>>(pool, params, d_kind + at, dz, loss, n);
        fc_gradient<<<CH + 1, KINDS>>>(pool, dz, grads, n);
        conv_gradient<<<CH, TAPS + 1>>>(d_x + at * LEN, params, act, dz, grads, n);
        DDP_STEP(0);
        sgd_momentum<<<(ARENA + 31) / 32, 32>>>(params, vel, grads, 0.25f, 0.9f);
        if (s % 15 == 14 || s == 0) {
            float m = 0;
            cudaMemcpy(h_loss, loss, n * sizeof(float), cudaMemcpyDeviceToHost);
            for (int i = 0; i < n; ++i) m += h_loss[i] / n;
            DDP_MEAN(&m);
            printf("step %d loss %.4f\n", s, m);
        }
    }
    cudaMemcpy(w, params, sizeof w, cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        if (!f) return 1;
        fwrite(w, 1, sizeof w, f);
        fclose(f);
    }
    return 0;
}
