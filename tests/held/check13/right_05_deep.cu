/* Three cuBLAS layers; the weights are updated inside the backward pass by gemm into the weights. C habits. */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define LAYERS 3
#define BATCH 48
#define DATA 384

static const int width[LAYERS + 1] = {16, 32, 24, 3};

#define CUDA(e)                                                                            \
    do {                                                                                   \
        cudaError_t s_ = (e);                                                              \
        if (s_ != cudaSuccess) {                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(s_));    \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)
#define BLAS(e)                                                                            \
    do {                                                                                   \
        if ((e) != CUBLAS_STATUS_SUCCESS) {                                                \
            fprintf(stderr, "%s:%d: cublas\n", __FILE__, __LINE__);                        \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

struct layer {
    int in, out, last;
    float *w, *b;       /* out x in, column-major; out */
    float *y, *dy, *dx; /* out x BATCH; in x BATCH */
};

static unsigned rng = 0xc0ffeeu;
static float uniform(void)
{
    rng = rng * 1664525u + 1013904223u;
    return (float)(rng >> 8) / 8388608.0f - 1.0f;
}

__global__ void activate(float *y, const float *b, int out, int n, int last)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float v = y[i] + b[i % out];
    y[i] = last ? v : tanhf(v);
}

__global__ void activate_back(float *dy, const float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dy[i] *= 1 - y[i] * y[i];
}

__global__ void difference(const float *y, const float *t, float *dy, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dy[i] = y[i] - t[i];
}

static void forward(cublasHandle_t h, struct layer *l, const float *x, int n)
{
    const float one = 1, zero = 0;
    BLAS(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, l->out, n, l->in, &one, l->w, l->out, x, l->in, &zero, l->y, l->out));
    activate<<<(l->out * n + 127) / 128, 128>>>(l->y, l->b, l->out, l->out * n, l->last);
}

static void backward_and_update(cublasHandle_t h, struct layer *l, const float *x, const float *ones, int n, float rate)
{
    const float one = 1, zero = 0, step = -rate / n;
    if (!l->last)
        activate_back<<<(l->out * n + 127) / 128, 128>>>(l->dy, l->y, l->out * n);
    BLAS(cublasSgemm(h, CUBLAS_OP_T, CUBLAS_OP_N, l->in, n, l->out, &one, l->w, l->out, l->dy, l->out, &zero, l->dx, l->in));
    BLAS(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_T, l->out, l->in, n, &step, l->dy, l->out, x, l->in, &one, l->w, l->out));
    BLAS(cublasSgemv(h, CUBLAS_OP_N, l->out, n, &step, l->dy, l->out, ones, 1, &one, l->b, 1));
}

int main(int argc, char **argv)
{
    static float data[DATA][16], target[DATA][3], buffer[32 * 32], host_dy[BATCH * 3];
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    struct layer net[LAYERS];
    float *x, *t, *ones;
    cublasHandle_t h;
    for (int i = 0; i < DATA; ++i) {
        float a = 0, b = 0;
        for (int k = 0; k < 16; ++k) {
            data[i][k] = uniform();
            a += k < 8 ? data[i][k] : 0;
            b += k >= 8 ? data[i][k] : 0;
        }
        target[i][0] = a > 0 ? 1.0f : -1.0f;
        target[i][1] = 0.5f * b;
        target[i][2] = 0.3f * (a - b) + 0.1f * uniform();
    }
    BLAS(cublasCreate(&h));
    CUDA(cudaMalloc((void **)&x, BATCH * 16 * sizeof(float)));
    CUDA(cudaMalloc((void **)&t, BATCH * 3 * sizeof(float)));
    CUDA(cudaMalloc((void **)&ones, BATCH * sizeof(float)));
    for (int i = 0; i < BATCH; ++i)
        buffer[i] = 1;
    CUDA(cudaMemcpy(ones, buffer, BATCH * sizeof(float), cudaMemcpyHostToDevice));
    for (int k = 0; k < LAYERS; ++k) {
        struct layer *l = &net[k];
        l->in = width[k];
        l->out = width[k + 1];
        l->last = k == LAYERS - 1;
        CUDA(cudaMalloc((void **)&l->w, l->in * l->out * sizeof(float)));
        CUDA(cudaMalloc((void **)&l->b, l->out * sizeof(float)));
        CUDA(cudaMalloc((void **)&l->y, l->out * BATCH * sizeof(float)));
        CUDA(cudaMalloc((void **)&l->dy, l->out * BATCH * sizeof(float)));
        CUDA(cudaMalloc((void **)&l->dx, l->in * BATCH * sizeof(float)));
        for (int i = 0; i < l->in * l->out; ++i)
            buffer[i] = 0.3f * uniform();
        CUDA(cudaMemcpy(l->w, buffer, l->in * l->out * sizeof(float), cudaMemcpyHostToDevice));
        CUDA(cudaMemset(l->b, 0, l->out * sizeof(float)));
        DDP_PARAMETER(l->w, l->in * l->out, DDP_FLOAT32);
        DDP_PARAMETER(l->b, l->out, DDP_FLOAT32);
    }
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, at = step * BATCH % DATA + (int)first;
        float rate = 0.15f / (1 + 0.01f * step), mse = 0;
        CUDA(cudaMemcpy(x, data[at], n * sizeof data[0], cudaMemcpyHostToDevice));
        CUDA(cudaMemcpy(t, target[at], n * sizeof target[0], cudaMemcpyHostToDevice));
        for (int k = 0; k < LAYERS; ++k)
            forward(h, &net[k], k == 0 ? x : net[k - 1].y, n);
        difference<<<(3 * n + 63) / 64, 64>>>(net[LAYERS - 1].y, t, net[LAYERS - 1].dy, 3 * n);
        CUDA(cudaMemcpy(host_dy, net[LAYERS - 1].dy, 3 * n * sizeof(float), cudaMemcpyDeviceToHost));
        for (int k = LAYERS - 1; k >= 0; --k) {
            backward_and_update(h, &net[k], k == 0 ? x : net[k - 1].y, ones, n, rate);
            if (k > 0)
                CUDA(cudaMemcpyAsync(net[k - 1].dy, net[k].dx, net[k].in * n * sizeof(float), cudaMemcpyDeviceToDevice, 0));
        }
        DDP_STEP_PARAMETERS(0);
        for (int i = 0; i < 3 * n; ++i)
            mse += host_dy[i] * host_dy[i] / (3 * n);
        DDP_MEAN_AS("mse", &mse);
        if (step % 10 == 0 && DDP_RANK() == 0)
            printf("step %d mse %.5f\n", step, mse);
    }
    FILE *f = argc > 1 && DDP_RANK() == 0 ? fopen(argv[1], "wb") : NULL;
    for (int k = 0; k < LAYERS; ++k) {
        CUDA(cudaMemcpy(buffer, net[k].w, net[k].in * net[k].out * sizeof(float), cudaMemcpyDeviceToHost));
        if (f)
            fwrite(buffer, sizeof(float), net[k].in * net[k].out, f);
        CUDA(cudaMemcpy(buffer, net[k].b, net[k].out * sizeof(float), cudaMemcpyDeviceToHost));
        if (f)
            fwrite(buffer, sizeof(float), net[k].out, f);
    }
    if (f)
        fclose(f);
    BLAS(cublasDestroy(h));
    return 0;
}
