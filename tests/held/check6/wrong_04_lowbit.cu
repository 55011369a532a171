/* Regression with four-bit hidden activations and eight-bit weights (quantisation-aware training, straight-through). */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define D 3
#define H 64
#define B 40
#define N 400

typedef struct {
    float *value, *grad, *m, *v;
    int n;
} Param;

static unsigned seed = 9001;
static float frand(void)
{
    seed = seed * 1103515245u + 12345u;
    return (float)((seed >> 9) & 0x3fffff) / (float)0x200000 - 1.0f;
}

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(cudaGetLastError()));
    exit(1);
}

static float *gpu(int n)
{
    void *p;
    if (cudaMalloc(&p, n * sizeof(float)) != cudaSuccess || cudaMemset(p, 0, n * sizeof(float)) != cudaSuccess)
        die("memory");
    return (float *)p;
}

static Param make_param(int n, float scale)
{
    Param p;
    float *h = (float *)malloc(n * sizeof(float));
    int i;
    p.n = n;
    p.value = gpu(n);
    p.grad = gpu(n);
    p.m = gpu(n);
    p.v = gpu(n);
    for (i = 0; i < n; ++i)
        h[i] = scale * frand();
    cudaMemcpy(p.value, h, n * sizeof(float), cudaMemcpyHostToDevice);
    free(h);
    DDP_PARAMETER(p.value, n, DDP_FLOAT32);
    DDP_GRADIENT(p.grad, n, DDP_FLOAT32);
    DDP_STATE(p.m, n, DDP_FLOAT32);
    DDP_STATE(p.v, n, DDP_FLOAT32);
    return p;
}

/* one block; result[0] = max |x| */
__global__ void absmax(const float *x, float *result, int n)
{
    __shared__ float part[128];
    float best = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        best = fmaxf(best, fabsf(x[i]));
    part[threadIdx.x] = best;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0)
        result[0] = part[0];
}

__global__ void quantise(const float *x, float *q, const float *peak, float levels, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float s = peak[0] / levels + 1e-12f;
    q[i] = rintf(x[i] / s) * s;
}

__global__ void hidden(const float *x, const float *w, const float *b, float *h, int rows)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * H)
        return;
    int r = t / H, j = t % H;
    float s = b[j];
    for (int d = 0; d < D; ++d)
        s += x[r * D + d] * w[d * H + j];
    h[t] = s > 0.f ? s : 0.f;
}

__global__ void output(const float *h, const float *w, const float *b, const float *y, float *delta, float *loss,
                       int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float s = b[0];
    for (int j = 0; j < H; ++j)
        s += h[r * H + j] * w[j];
    float e = s - y[r];
    delta[r] = 2.f * e / rows;
    loss[r] = e * e;
}

__global__ void back_output(const float *h, const float *delta, float *dw, float *db, int rows)
{
    int j = threadIdx.x;
    float g = 0.f, gb = 0.f;
    for (int r = 0; r < rows; ++r) {
        g += h[r * H + j] * delta[r];
        gb += delta[r];
    }
    dw[j] = g;
    if (j == 0)
        db[0] = gb;
}

__global__ void back_hidden(const float *x, const float *h, const float *w2, const float *delta, float *dw, float *db,
                            int rows)
{
    int j = threadIdx.x;
    float g[D + 1] = {0.f};
    for (int r = 0; r < rows; ++r) {
        if (h[r * H + j] <= 0.f)
            continue;
        float e = delta[r] * w2[j];
        for (int d = 0; d < D; ++d)
            g[d] += e * x[r * D + d];
        g[D] += e;
    }
    for (int d = 0; d < D; ++d)
        dw[d * H + j] = g[d];
    db[j] = g[D];
}

__global__ void adam(float *p, const float *g, float *m, float *v, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    m[i] = 0.8f * m[i] + 0.2f * g[i];
    v[i] = 0.98f * v[i] + 0.02f * g[i] * g[i];
    p[i] -= rate * m[i] / (sqrtf(v[i]) + 1e-3f);
}

static void apply(Param *p, float rate)
{
    adam<<<(p->n + 63) / 64, 64>>>(p->value, p->grad, p->m, p->v, rate, p->n);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60, s, i;
    static float X[N * D], Y[N], out[D * H + 2 * H + 1], host_loss[B];
    for (i = 0; i < N; ++i) {
        float *x = X + i * D;
        x[0] = frand(), x[1] = frand(), x[2] = frand();
        Y[i] = sinf(2.5f * x[0]) * x[1] + 0.7f * x[2] * x[2];
    }
    Param w1 = make_param(D * H, 0.8f), b1 = make_param(H, 0.5f), w2 = make_param(H, 0.2f), b2 = make_param(1, 0.f);
    float *x = gpu(B * D), *y = gpu(B), *h = gpu(B * H), *hq = gpu(B * H), *w1q = gpu(D * H), *delta = gpu(B),
          *loss = gpu(B), *act_peak = gpu(1), *weight_peak = gpu(1);
    for (s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        int n = (int)count;
        size_t row = (size_t)(s * B % N) + first;
        cudaMemcpy(x, X + row * D, n * D * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(y, Y + row, n * sizeof(float), cudaMemcpyHostToDevice);
        absmax<<<1, 128>>>(w1.value, weight_peak, w1.n);
        quantise<<<(w1.n + 63) / 64, 64>>>(w1.value, w1q, weight_peak, 127.f, w1.n);
        hidden<<<(n * H + 63) / 64, 64>>>(x, w1q, b1.value, h, n);
        absmax<<<1, 128>>>(h, act_peak, n * H);
        quantise<<<(n * H + 63) / 64, 64>>>(h, hq, act_peak, 15.f, n * H);
        output<<<1, 64>>>(hq, w2.value, b2.value, y, delta, loss, n);
        back_output<<<1, H>>>(hq, delta, w2.grad, b2.grad, n);
        back_hidden<<<1, H>>>(x, h, w2.value, delta, w1.grad, b1.grad, n);
        DDP_STEP(0);
        apply(&w1, 0.02f);
        apply(&b1, 0.02f);
        apply(&w2, 0.02f);
        apply(&b2, 0.02f);
        if (s % 10 == 0 || s == steps - 1) {
            float mse = 0.f;
            cudaMemcpy(host_loss, loss, n * sizeof(float), cudaMemcpyDeviceToHost);
            for (i = 0; i < n; ++i)
                mse += host_loss[i] / n;
            DDP_MEAN_AS("mse", &mse);
            if (DDP_RANK() == 0)
                printf("step %2d mse %.5f\n", s, mse);
        }
    }
    cudaMemcpy(out, w1.value, w1.n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(out + D * H, b1.value, H * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(out + D * H + H, w2.value, H * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(out + D * H + 2 * H, b2.value, sizeof(float), cudaMemcpyDeviceToHost);
    if (cudaDeviceSynchronize() != cudaSuccess)
        die("training");
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(out, sizeof(float), D * H + 2 * H + 1, f);
        fclose(f);
    }
    return 0;
}
