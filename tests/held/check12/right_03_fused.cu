/* Three dense layers without gradient buffers: each weight update is one gemm with alpha = -rate, beta = 1. */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include "ddprun.h"

#define LAYERS 3
#define BATCH 40
#define DATA 400
#define STEPS 60

typedef struct {
    int in, out;
    float *w;   /* in x out, column major: column o are the weights of output o */
    float *a;   /* outputs, out x batch */
    float *d;   /* derivative with respect to the outputs before tanh */
} layer;

static cublasHandle_t blas;
static unsigned state = 77777;

static float rnd(void)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return (float)(state >> 8) / 8388608.0f - 1.0f;
}

__global__ void squash(float *a, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) a[t] = tanhf(a[t]);
}
__global__ void unsquash(float *d, const float *a, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) d[t] *= 1.0f - a[t] * a[t];
}
__global__ void huber(const float *a, const float *y, float *d, float *loss, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    float e = a[t] - y[t], m = fabsf(e);
    d[t] = fminf(fmaxf(e, -0.5f), 0.5f);
    loss[t] = m < 0.5f ? 0.5f * e * e : 0.5f * (m - 0.25f);
}

static void layer_create(layer *l, int in, int out)
{
    float *h = (float *)malloc(in * out * sizeof(float));
    for (int i = 0; i < in * out; ++i) h[i] = rnd() * sqrtf(2.0f / in);
    l->in = in;
    l->out = out;
    cudaMalloc((void **)&l->w, in * out * sizeof(float));
    cudaMalloc((void **)&l->a, out * BATCH * sizeof(float));
    cudaMalloc((void **)&l->d, out * BATCH * sizeof(float));
    cudaMemcpy(l->w, h, in * out * sizeof(float), cudaMemcpyHostToDevice);
    DDP_PARAMETER(l->w, in * out, DDP_FLOAT32);
    free(h);
}

static void layer_forward(layer *l, const float *x, int n, int last)
{
    const float one = 1, zero = 0;
    cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, l->out, n, l->in, &one, l->w, l->in, x, l->in, &zero, l->a, l->out);
    if (!last) squash<<<(n * l->out + 63) / 64, 64>>>(l->a, n * l->out);
}

/* x is the layer's input; below the layer that made it, or NULL */
static void layer_backward(layer *l, const float *x, layer *below, int n, float rate)
{
    const float one = 1, zero = 0, alpha = -rate / n;
    if (below != NULL) {
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, l->in, n, l->out, &one, l->w, l->in, l->d, l->out, &zero, below->d, l->in);
        unsquash<<<(n * l->in + 63) / 64, 64>>>(below->d, below->a, n * l->in);
    }
    cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, l->in, l->out, n, &alpha, x, l->in, l->d, l->out, &one, l->w, l->in);
}

int main(int argc, char **argv)
{
    const int size[LAYERS + 1] = {8, 24, 16, 2};
    static float hx[DATA * 8], hy[DATA * 2], hl[BATCH * 2];
    layer net[LAYERS];
    float *x, *y, *loss;
    for (int i = 0; i < DATA; ++i) {
        float *r = hx + i * 8;
        for (int k = 0; k < 8; ++k) r[k] = 1.5f * rnd();
        hy[2 * i] = sinf(r[0] + r[1]) + 0.3f * r[2];
        hy[2 * i + 1] = r[3] * r[4] - 0.5f * r[5] + (i % 17 == 0 ? 3.0f : 0.0f);
    }
    cublasCreate(&blas);
    for (int k = 0; k < LAYERS; ++k) layer_create(&net[k], size[k], size[k + 1]);
    cudaMalloc((void **)&x, sizeof(hx));
    cudaMalloc((void **)&y, sizeof(hy));
    cudaMalloc((void **)&loss, sizeof(hl));
    cudaMemcpy(x, hx, sizeof(hx), cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy, sizeof(hy), cudaMemcpyHostToDevice);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        size_t row = (size_t)step * BATCH % DATA + first;
        const float *in = x + row * 8;
        for (int k = 0; k < LAYERS; ++k)
            layer_forward(&net[k], k ? net[k - 1].a : in, n, k == LAYERS - 1);
        huber<<<(n * 2 + 63) / 64, 64>>>(net[LAYERS - 1].a, y + row * 2, net[LAYERS - 1].d, loss, n * 2);
        for (int k = LAYERS - 1; k >= 0; --k)
            layer_backward(&net[k], k ? net[k - 1].a : in, k ? &net[k - 1] : NULL, n, 0.2f);
        DDP_STEP_PARAMETERS(0);
        if (step % 10 == 0 || step == STEPS - 1) {
            float s = 0;
            cudaMemcpy(hl, loss, n * 2 * sizeof(float), cudaMemcpyDeviceToHost);
            for (int i = 0; i < 2 * n; ++i) s += hl[i] / n;
            DDP_MEAN(&s);
            if (DDP_RANK() == 0) printf("step %d loss %.4f\n", step, s);
        }
    }
    FILE *f = argc > 1 && DDP_RANK() == 0 ? fopen(argv[1], "wb") : NULL;
    for (int k = 0; k < LAYERS; ++k) {
        int n = net[k].in * net[k].out;
        float *h = (float *)malloc(n * sizeof(float));
        cudaMemcpy(h, net[k].w, n * sizeof(float), cudaMemcpyDeviceToHost);
        if (f) fwrite(h, sizeof(float), n, f);
        free(h);
    }
    if (f) fclose(f);
    cublasDestroy(blas);
    return 0;
}
