// Softmax network with cuBLAS, trained on blends of two examples (mixup).
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

enum { IN = 14, MID = 20, OUT = 5, BATCH = 40, DATA = 480, W1 = IN * MID, W2 = MID * OUT };

#define RT(e) do { if ((e) != cudaSuccess) { fprintf(stderr, "runtime failure in line %d\n", __LINE__); exit(1); } } while (0)
#define BL(e) do { if ((e) != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "cublas failure in line %d\n", __LINE__); exit(1); } } while (0)

static float data[DATA][IN];
static int label[DATA];

static unsigned hash32(unsigned x)
{
    x ^= x >> 17; x *= 0xed5ad4bbu; x ^= x >> 11; x *= 0xac4c1b51u; x ^= x >> 15; x *= 0x31848babu; x ^= x >> 14;
    return x;
}
static float hashf(unsigned x) { return (hash32(x) >> 8) / 16777216.0f; }

__global__ void blend(const float *x, const float *t, const float *lambda, float *mx, float *mt, int rows)
{
    int r = blockIdx.x, k = threadIdx.x;
    if (r >= rows) return;
    int other = rows - 1 - r;
    float a = lambda[r];
    if (k < IN) mx[r * IN + k] = a * x[r * IN + k] + (1 - a) * x[other * IN + k];
    if (k < OUT) mt[r * OUT + k] = a * t[r * OUT + k] + (1 - a) * t[other * OUT + k];
}

__global__ void relu(float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && h[i] < 0) h[i] = 0;
}

__global__ void relu_back(float *dh, const float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && h[i] <= 0) dh[i] = 0;
}

__global__ void cross_entropy(float *z, const float *t, float *loss, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float top = -1e30f, s = 0, l = 0;
    for (int c = 0; c < OUT; ++c) top = fmaxf(top, z[r * OUT + c]);
    for (int c = 0; c < OUT; ++c) s += expf(z[r * OUT + c] - top);
    for (int c = 0; c < OUT; ++c) {
        float logp = z[r * OUT + c] - top - logf(s);
        l -= t[r * OUT + c] * logp;
        z[r * OUT + c] = (expf(logp) - t[r * OUT + c]) / rows;
    }
    loss[r] = l;
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    static float w[W1 + W2], onehot[BATCH * OUT], lambda[BATCH], l[BATCH];
    const float one = 1, zero = 0, minus_rate = -0.25f;
    for (int i = 0; i < DATA; ++i) {
        label[i] = (int)(hash32(i + 7000u) % OUT);
        for (int k = 0; k < IN; ++k)
            data[i][k] = (hashf(label[i] * 64u + k + 99u) > 0.5f ? 1.0f : -1.0f) + 2.2f * (hashf(100000u + i * 16u + k) - 0.5f);
    }
    for (int i = 0; i < W1 + W2; ++i) w[i] = 0.6f * (hashf(900000u + i) - 0.5f);

    float *dw, *dg, *x, *t, *mx, *mt, *h, *dh, *z, *dl, *dlam;
    RT(cudaMalloc(&dw, sizeof w)); RT(cudaMalloc(&dg, sizeof w));
    RT(cudaMalloc(&x, BATCH * IN * 4)); RT(cudaMalloc(&mx, BATCH * IN * 4));
    RT(cudaMalloc(&t, BATCH * OUT * 4)); RT(cudaMalloc(&mt, BATCH * OUT * 4)); RT(cudaMalloc(&z, BATCH * OUT * 4));
    RT(cudaMalloc(&h, BATCH * MID * 4)); RT(cudaMalloc(&dh, BATCH * MID * 4));
    RT(cudaMalloc(&dl, BATCH * 4)); RT(cudaMalloc(&dlam, BATCH * 4));
    RT(cudaMemcpy(dw, w, sizeof w, cudaMemcpyHostToDevice));
    cublasHandle_t cb;
    BL(cublasCreate(&cb));
    DDP_PARAMETER(dw, W1 + W2, DDP_FLOAT32);
    DDP_GRADIENT(dg, W1, DDP_FLOAT32);
    DDP_GRADIENT(dg + W1, W2, DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, at = step * BATCH % DATA + (int)first;
        for (int i = 0; i < n; ++i) {
            float u = hashf(5000000u + step * BATCH + (unsigned)first + i);
            lambda[i] = 0.5f + 0.5f * u * u;
            for (int c = 0; c < OUT; ++c) onehot[i * OUT + c] = label[at + i] == c;
        }
        RT(cudaMemcpy(x, data[at], n * sizeof data[0], cudaMemcpyHostToDevice));
        RT(cudaMemcpy(t, onehot, n * OUT * sizeof(float), cudaMemcpyHostToDevice));
        RT(cudaMemcpy(dlam, lambda, n * sizeof(float), cudaMemcpyHostToDevice));
        blend<<<n, 16>>>(x, t, dlam, mx, mt, n);
        // row-major arrays are column-major transposes: h^T = w1^T x^T
        BL(cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_N, MID, n, IN, &one, dw, MID, mx, IN, &zero, h, MID));
        relu<<<(n * MID + 127) / 128, 128>>>(h, n * MID);
        BL(cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_N, OUT, n, MID, &one, dw + W1, OUT, h, MID, &zero, z, OUT));
        cross_entropy<<<1, BATCH>>>(z, mt, dl, n);
        BL(cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_T, OUT, MID, n, &one, z, OUT, h, MID, &zero, dg + W1, OUT));
        BL(cublasSgemm(cb, CUBLAS_OP_T, CUBLAS_OP_N, MID, n, OUT, &one, dw + W1, OUT, z, OUT, &zero, dh, MID));
        relu_back<<<(n * MID + 127) / 128, 128>>>(dh, h, n * MID);
        BL(cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_T, MID, IN, n, &one, dh, MID, mx, IN, &zero, dg, MID));
        DDP_STEP(0);
        BL(cublasSaxpy(cb, W1 + W2, &minus_rate, dg, 1, dw, 1));
        RT(cudaMemcpy(l, dl, n * sizeof(float), cudaMemcpyDeviceToHost));
        float mean = 0;
        for (int i = 0; i < n; ++i) mean += l[i] / n;
        DDP_MEAN_AS("loss", &mean);
        if (step % 10 == 0 && DDP_RANK() == 0) printf("step %d, loss %.4f\n", step, mean);
    }
    RT(cudaMemcpy(w, dw, sizeof w, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(w, sizeof w, 1, f);
        fclose(f);
    }
    BL(cublasDestroy(cb));
    return 0;
}
