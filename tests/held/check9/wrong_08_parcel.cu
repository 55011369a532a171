/*
 * Softmax regression on sparse-looking parcel features with cuBLAS; the strength of the ridge is given as in many
 * libraries: C multiplies the sum of the losses, so that the penalty of a mean is |W|^2 / (2 C n).
 */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ddprun.h"

#define FEATURES 64
#define CLASSES  6
#define BATCH    50
#define SAMPLES  1000

typedef struct {
    float *weight, *dweight, *bias, *dbias;
    float *prob, *ones;
    cublasHandle_t handle;
    float inverse_c, rate;
} model_t;

static unsigned long state = 1;
static float uniform(void)
{
    state = (state * 48271ul) % 2147483647ul;
    return (float)state / 2147483647.0f;
}

__global__ void softmax_minus_target(float *z, const float *bias, const int *label, float *nll, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float *row = z + i * CLASSES, m = -1e30f, s = 0;
    for (int c = 0; c < CLASSES; ++c) { row[c] += bias[c]; m = fmaxf(m, row[c]); }
    for (int c = 0; c < CLASSES; ++c) s += expf(row[c] - m);
    nll[i] = logf(s) + m - row[label[i]];
    for (int c = 0; c < CLASSES; ++c) row[c] = expf(row[c] - m) / s - (c == label[i] ? 1.0f : 0.0f);
}

__global__ void ridge(float *dw, const float *w, float strength, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dw[i] += strength * w[i];
}

__global__ void fill(float *p, float v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = v;
}

static void model_create(model_t *m)
{
    float host[FEATURES * CLASSES];
    for (int i = 0; i < FEATURES * CLASSES; ++i) host[i] = 1.5f * (uniform() - 0.5f);
    cudaMalloc((void **)&m->weight, sizeof host);
    cudaMalloc((void **)&m->dweight, sizeof host);
    cudaMalloc((void **)&m->bias, CLASSES * sizeof(float));
    cudaMalloc((void **)&m->dbias, CLASSES * sizeof(float));
    cudaMalloc((void **)&m->prob, BATCH * CLASSES * sizeof(float));
    cudaMalloc((void **)&m->ones, BATCH * sizeof(float));
    cudaMemcpy(m->weight, host, sizeof host, cudaMemcpyHostToDevice);
    cudaMemset(m->bias, 0, CLASSES * sizeof(float));
    fill<<<1, BATCH>>>(m->ones, 1.0f, BATCH);
    cublasCreate(&m->handle);
    DDP_PARAMETER(m->weight, FEATURES * CLASSES, DDP_FLOAT32);
    DDP_PARAMETER(m->bias, CLASSES, DDP_FLOAT32);
    DDP_GRADIENT(m->dweight, FEATURES * CLASSES, DDP_FLOAT32);
    DDP_GRADIENT(m->dbias, CLASSES, DDP_FLOAT32);
    m->inverse_c = 2.0f;
    m->rate = 0.4f;
}

/* Matrices are row-major, so each product is written transposed. */
static void model_backward(model_t *m, const float *x, const int *y, float *nll, int n)
{
    const float one = 1, zero = 0, mean = 1.0f / n;
    cublasSgemm(m->handle, CUBLAS_OP_N, CUBLAS_OP_N, CLASSES, n, FEATURES, &one, m->weight, CLASSES, x, FEATURES, &zero,
                m->prob, CLASSES);
    softmax_minus_target<<<(n + 31) / 32, 32>>>(m->prob, m->bias, y, nll, n);
    cublasSgemm(m->handle, CUBLAS_OP_N, CUBLAS_OP_T, CLASSES, FEATURES, n, &mean, m->prob, CLASSES, x, FEATURES, &zero,
                m->dweight, CLASSES);
    cublasSgemv(m->handle, CUBLAS_OP_N, CLASSES, n, &mean, m->prob, CLASSES, m->ones, 1, &zero, m->dbias, 1);
    ridge<<<(FEATURES * CLASSES + 127) / 128, 128>>>(m->dweight, m->weight, m->inverse_c / n, FEATURES * CLASSES);
}

static void model_update(model_t *m)
{
    const float step = -m->rate;
    cublasSaxpy(m->handle, FEATURES * CLASSES, &step, m->dweight, 1, m->weight, 1);
    cublasSaxpy(m->handle, CLASSES, &step, m->dbias, 1, m->bias, 1);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    float *hx = (float *)calloc(SAMPLES * FEATURES, sizeof(float)), *x, *nll, host[FEATURES * CLASSES], hn[BATCH];
    int hy[SAMPLES], *y;
    for (int i = 0; i < SAMPLES; ++i) {
        hy[i] = (int)(uniform() * CLASSES) % CLASSES;
        for (int k = 0; k < 12; ++k) {
            int f = uniform() < 0.45f ? hy[i] * 10 + (int)(uniform() * 10) : (int)(uniform() * FEATURES);
            hx[i * FEATURES + f % FEATURES] += 0.5f;
        }
    }
    cudaMalloc((void **)&x, SAMPLES * FEATURES * sizeof(float));
    cudaMalloc((void **)&y, sizeof hy);
    cudaMalloc((void **)&nll, BATCH * sizeof(float));
    cudaMemcpy(x, hx, SAMPLES * FEATURES * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy, sizeof hy, cudaMemcpyHostToDevice);
    model_t m;
    model_create(&m);
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int at = step * BATCH % SAMPLES + (int)first;
        model_backward(&m, x + at * FEATURES, y + at, nll, (int)count);
        DDP_STEP(0);
        model_update(&m);
        if (step % 12 == 0 || step == steps - 1) {
            double sum = 0;
            cudaMemcpy(hn, nll, count * sizeof(float), cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < count; ++i) sum += hn[i];
            sum /= count;
            DDP_MEAN(&sum);
            printf("step %d nll %.4f\n", step, sum);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        cudaMemcpy(host, m.weight, sizeof host, cudaMemcpyDeviceToHost);
        for (int i = 0; i < FEATURES * CLASSES; ++i) fprintf(f, "%.9g\n", host[i]);
        cudaMemcpy(host, m.bias, CLASSES * sizeof(float), cudaMemcpyDeviceToHost);
        for (int i = 0; i < CLASSES; ++i) fprintf(f, "%.9g\n", host[i]);
        fclose(f);
    }
    cublasDestroy(m.handle);
    free(hx);
    return 0;
}
