/* Digits of a seven-segment display with noise. The momentum lives in the gradient buffers: every backward gemm runs with
 * beta = momentum, so that no separate velocity arrays are needed. Column-major throughout: a column is a sample. */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define SEG 7
#define IN (3 * SEG)
#define HID 36
#define OUT 10
#define BATCH 60
#define SAMPLES 900
#define STEPS 60
#define GRID(n) (((n) + 127) / 128), 128

static const float momentum = 0.8f, rate = 0.25f;

static void *device(size_t bytes, const void *from)
{
    void *p = NULL;
    cudaError_t e = cudaMalloc(&p, bytes);
    if (e == cudaSuccess)
        e = from ? cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice) : cudaMemset(p, 0, bytes);
    if (e != cudaSuccess) {
        fprintf(stderr, "device: %s\n", cudaGetErrorString(e));
        exit(1);
    }
    return p;
}

static unsigned word = 11u;
static float unit(void)
{
    word ^= word << 13;
    word ^= word >> 17;
    word ^= word << 5;
    return (word >> 8) * (1.0f / 16777216.0f);
}

__global__ void hidden_act(float *h, const float *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < HID * n) {
        float v = h[i] + b[i % HID];
        h[i] = v > 0.0f ? v : expm1f(v);
    }
}

__global__ void hidden_back(float *d, const float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < HID * n && h[i] < 0.0f)
        d[i] *= h[i] + 1.0f;
}

__global__ void cross_entropy(float *z, const float *b, const int *digit, float *loss, int n)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n)
        return;
    float *p = z + s * OUT, top = -1e30f, sum = 0.0f;
    for (int k = 0; k < OUT; ++k) {
        p[k] += b[k];
        top = fmaxf(top, p[k]);
    }
    for (int k = 0; k < OUT; ++k)
        sum += expf(p[k] - top);
    loss[s] = top + logf(sum) - p[digit[s]];
    for (int k = 0; k < OUT; ++k)
        p[k] = (expf(p[k] - top) / sum - (k == digit[s] ? 1.0f : 0.0f)) / n;
}

int main(int argc, char **argv)
{
    static const unsigned char lit[10] = {0x77, 0x12, 0x5d, 0x5b, 0x3a, 0x6b, 0x6f, 0x52, 0x7f, 0x7b};
    static float hx[SAMPLES * IN], init[IN * HID + HID * OUT], h1[BATCH];
    static int hd[SAMPLES];
    for (int s = 0; s < SAMPLES; ++s) {
        hd[s] = (int)(unit() * 10) % 10;
        float bright = 0.4f + unit();
        for (int k = 0; k < IN; ++k)
            hx[s * IN + k] = bright * ((lit[hd[s]] >> (k % SEG)) & 1 ? 1.0f : -0.2f) + 1.2f * (unit() + unit() - 1.0f);
    }
    for (int i = 0; i < IN * HID + HID * OUT; ++i)
        init[i] = 0.5f * (unit() - 0.5f);
    for (int i = 0; i < BATCH; ++i)
        h1[i] = 1.0f;

    float *x = (float *)device(sizeof(hx), hx), *ones = (float *)device(sizeof(h1), h1);
    int *digit = (int *)device(sizeof(hd), hd);
    float *w1 = (float *)device(IN * HID * sizeof(float), init), *b1 = (float *)device(HID * sizeof(float), NULL);
    float *w2 = (float *)device(HID * OUT * sizeof(float), init + IN * HID), *b2 = (float *)device(OUT * sizeof(float), NULL);
    float *g1 = (float *)device(IN * HID * sizeof(float), NULL), *gb1 = (float *)device(HID * sizeof(float), NULL);
    float *g2 = (float *)device(HID * OUT * sizeof(float), NULL), *gb2 = (float *)device(OUT * sizeof(float), NULL);
    float *h = (float *)device(HID * BATCH * sizeof(float), NULL), *z = (float *)device(OUT * BATCH * sizeof(float), NULL);
    float *dh = (float *)device(HID * BATCH * sizeof(float), NULL), *loss = (float *)device(BATCH * sizeof(float), NULL);

    struct {
        float *w, *g;
        int n;
    } tensors[4] = {{w1, g1, IN * HID}, {b1, gb1, HID}, {w2, g2, HID * OUT}, {b2, gb2, OUT}};
    for (int t = 0; t < 4; ++t) {
        DDP_PARAMETER(tensors[t].w, tensors[t].n, DDP_FLOAT32);
        DDP_GRADIENT(tensors[t].g, tensors[t].n, DDP_FLOAT32);
    }

    cublasHandle_t cb;
    cublasCreate(&cb);
    const float one = 1.0f, zero = 0.0f;
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, at = step * BATCH % SAMPLES + (int)first;
        const float *xb = x + at * IN;

        cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_N, HID, n, IN, &one, w1, HID, xb, IN, &zero, h, HID);
        hidden_act<<<GRID(HID * n)>>>(h, b1, n);
        cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_N, OUT, n, HID, &one, w2, OUT, h, HID, &zero, z, OUT);
        cross_entropy<<<GRID(n)>>>(z, b2, digit + at, loss, n);

        cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_T, OUT, HID, n, &one, z, OUT, h, HID, &momentum, g2, OUT);
        cublasSgemv(cb, CUBLAS_OP_N, OUT, n, &one, z, OUT, ones, 1, &momentum, gb2, 1);
        cublasSgemm(cb, CUBLAS_OP_T, CUBLAS_OP_N, HID, n, OUT, &one, w2, OUT, z, OUT, &zero, dh, HID);
        hidden_back<<<GRID(HID * n)>>>(dh, h, n);
        cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_T, HID, IN, n, &one, dh, HID, xb, IN, &momentum, g1, HID);
        cublasSgemv(cb, CUBLAS_OP_N, HID, n, &one, dh, HID, ones, 1, &momentum, gb1, 1);
        DDP_STEP(0);

        const float down = -rate;
        for (int t = 0; t < 4; ++t)
            cublasSaxpy(cb, tensors[t].n, &down, tensors[t].g, 1, tensors[t].w, 1);

        if (step % 10 == 0 || step == STEPS - 1) {
            float l[BATCH], mean = 0.0f;
            cudaMemcpy(l, loss, n * sizeof(float), cudaMemcpyDeviceToHost);
            for (int i = 0; i < n; ++i)
                mean += l[i] / n;
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0)
                printf("step %3d   loss %.4f\n", step, mean);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        static float save[IN * HID];
        FILE *f = fopen(argv[1], "wb");
        for (int t = 0; t < 4; ++t) {
            cudaMemcpy(save, tensors[t].w, tensors[t].n * sizeof(float), cudaMemcpyDeviceToHost);
            fwrite(save, sizeof(float), tensors[t].n, f);
        }
        fclose(f);
    }
    cublasDestroy(cb);
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
