/* 64-32-8-32-64 autoencoder, everything from one arena. Parameters are one flat vector, so are gradients. */
#include "arena.h"
#include <cublas_v2.h>
#include <math.h>
#include <string.h>

#define DIM 64
#define LAYERS 4
#define MINIBATCH 64
#define DATASET 1024

static const int widths[LAYERS + 1] = {DIM, 32, 8, 32, DIM};

typedef struct {
    int total;
    int w_off[LAYERS], b_off[LAYERS];
    float *theta, *dtheta, *m, *v;
    float *act[LAYERS + 1], *delta[LAYERS + 1];
    float *loss;
} Model;

__global__ void bias_act(float *a, const float *b, int width, int n, int linear)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < width * n) {
        float x = a[i] + b[i % width];
        a[i] = linear ? x : tanhf(x);
    }
}

__global__ void mse_delta(const float *out, const float *in, float *delta, float *loss, int n)
{
    __shared__ float part[128];
    float s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float d = out[i] - in[i];
        delta[i] = 2.f * d / n;
        s += d * d;
    }
    part[threadIdx.x] = s;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) *loss = part[0] / n;
}

__global__ void bias_grad(const float *delta, float *db, int width, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= width) return;
    float s = 0;
    for (int i = 0; i < n; i++) s += delta[i * width + j];
    db[j] = s;
}

__global__ void tanh_back(float *delta, const float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) delta[i] *= 1.f - a[i] * a[i];
}

__global__ void adam_update(float *theta, const float *dtheta, float *m, float *v, int n, float lr, int t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float g = dtheta[i];
    m[i] = 0.9f * m[i] + 0.1f * g;
    v[i] = 0.99f * v[i] + 0.01f * g * g;
    float mh = m[i] / (1.f - powf(0.9f, t)), vh = v[i] / (1.f - powf(0.99f, t));
    theta[i] -= lr * mh / (sqrtf(vh) + 1e-7f);
}

static void model_init(Model *M, Arena *A)
{
    int off = 0;
    for (int l = 0; l < LAYERS; l++) {
        M->w_off[l] = off;
        off += widths[l] * widths[l + 1];
        M->b_off[l] = off;
        off += widths[l + 1];
    }
    M->total = off;
    M->theta = arena_floats(A, off);
    M->dtheta = arena_floats(A, off);
    M->m = arena_floats(A, off);
    M->v = arena_floats(A, off);
    for (int l = 0; l <= LAYERS; l++) {
        M->act[l] = arena_floats(A, widths[l] * MINIBATCH);
        M->delta[l] = arena_floats(A, widths[l] * MINIBATCH);
    }
    M->loss = arena_floats(A, 1);

    float *h = (float *)calloc(off, sizeof(float));
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < widths[l] * widths[l + 1]; i++)
            h[M->w_off[l] + i] = (drand48() * 2 - 1) * sqrt(6.0 / (widths[l] + widths[l + 1]));
    cudaMemcpy(M->theta, h, off * sizeof(float), cudaMemcpyHostToDevice);
    free(h);
}

static void forward(cublasHandle_t cb, Model *M)
{
    float one = 1, zero = 0;
    for (int l = 0; l < LAYERS; l++) {
        int in = widths[l], out = widths[l + 1];
        cublasSgemm(cb, CUBLAS_OP_T, CUBLAS_OP_N, out, MINIBATCH, in, &one, M->theta + M->w_off[l], in, M->act[l], in, &zero, M->act[l + 1], out);
        bias_act<<<(out * MINIBATCH + 127) / 128, 128>>>(M->act[l + 1], M->theta + M->b_off[l], out, MINIBATCH, l == LAYERS - 1);
    }
}

static void backward(cublasHandle_t cb, Model *M)
{
    float one = 1, zero = 0;
    mse_delta<<<1, 128>>>(M->act[LAYERS], M->act[0], M->delta[LAYERS], M->loss, DIM * MINIBATCH);
    for (int l = LAYERS - 1; l >= 0; l--) {
        int in = widths[l], out = widths[l + 1];
        cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_T, in, out, MINIBATCH, &one, M->act[l], in, M->delta[l + 1], out, &zero, M->dtheta + M->w_off[l], in);
        bias_grad<<<1, out>>>(M->delta[l + 1], M->dtheta + M->b_off[l], out, MINIBATCH);
        if (l > 0) {
            cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_N, in, MINIBATCH, out, &one, M->theta + M->w_off[l], in, M->delta[l + 1], out, &zero, M->delta[l], in);
            tanh_back<<<(in * MINIBATCH + 127) / 128, 128>>>(M->delta[l], M->act[l], in * MINIBATCH);
        }
    }
}

static void gaussian_bumps(float *x, int n)
{
    for (int i = 0; i < n; i++) {
        double c = drand48() * DIM, w = 4 + 8 * drand48(), a = 0.5 + drand48();
        for (int j = 0; j < DIM; j++) x[i * DIM + j] = a * exp(-(j - c) * (j - c) / (2 * w * w));
    }
}

int main(void)
{
    Arena arena;
    Model model;
    cublasHandle_t cublas;
    srand48(31);
    cublasCreate(&cublas);
    arena_init(&arena, 1 << 20);
    model_init(&model, &arena);
    printf("%d parameters, arena %zu of %zu bytes\n", model.total, arena.used, arena.size);

    float *data = (float *)malloc(DATASET * DIM * sizeof(float));
    gaussian_bumps(data, DATASET);

    int t = 0;
    for (int epoch = 0; epoch < 8; epoch++) {
        float sum = 0, loss;
        for (int i = 0; i < DATASET / MINIBATCH; i++) {
            /* the input layer's activation is the batch */
            cudaMemcpy(model.act[0], &data[i * MINIBATCH * DIM], MINIBATCH * DIM * sizeof(float), cudaMemcpyHostToDevice);
            forward(cublas, &model);
            backward(cublas, &model);
            t++;
            adam_update<<<(model.total + 255) / 256, 256>>>(model.theta, model.dtheta, model.m, model.v, model.total, 3e-3f, t);
            cudaMemcpy(&loss, model.loss, sizeof loss, cudaMemcpyDeviceToHost);
            sum += loss;
        }
        printf("epoch %d loss %g\n", epoch, sum / (DATASET / MINIBATCH));
    }
    free(data);
    cudaFree(arena.base);
    cublasDestroy(cublas);
    return 0;
}
