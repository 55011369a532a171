/* Three-layer regression network after an old teaching code: weights are changed in the backward pass, by one gemm each. */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define LAYERS 3
#define BATCH 32
#define ROWS 320
static const int width[LAYERS + 1] = {8, 24, 16, 2};

struct network {
    float *w[LAYERS];         /* (width[l] + 1) x width[l + 1], the last row is the bias */
    float *a[LAYERS + 1];     /* activations, each row ends with a one */
    float *d[LAYERS + 1];     /* errors */
    cublasHandle_t blas;
};

static unsigned rstate = 1013u;
static float rnd(void)
{
    rstate = rstate * 69069u + 5u;
    return (float)(rstate >> 8) / 8388608.0f - 1.0f;
}

__global__ void squash(float *a, int w, int linear)
{
    int i = blockIdx.x, k = threadIdx.x;
    float *p = a + i * (w + 1) + k;
    if (k == w) *p = 1;
    else if (!linear) *p = tanhf(*p);
}
__global__ void output_error(const float *a, const float *t, float *d, int w)
{
    int i = blockIdx.x, k = threadIdx.x;
    d[i * w + k] = a[i * (w + 1) + k] - t[i * w + k];
}
__global__ void derivative(float *d, const float *a, int w)
{
    int i = blockIdx.x, k = threadIdx.x;
    float y = a[i * (w + 1) + k];
    d[i * w + k] *= 1 - y * y;
}

static void forward(struct network *net, int n)
{
    const float one = 1, zero = 0;
    for (int l = 0; l < LAYERS; ++l) {
        int in = width[l] + 1, out = width[l + 1];
        cublasSgemm(net->blas, CUBLAS_OP_N, CUBLAS_OP_N, out, n, in, &one, net->w[l], out, net->a[l], in, &zero, net->a[l + 1],
                    out + 1);
        squash<<<n, out + 1>>>(net->a[l + 1], out, l == LAYERS - 1);
    }
}

static void backward(struct network *net, const float *target, int n, float rate, float decay)
{
    const float one = 1, zero = 0, step = -rate / n, keep = 1 - rate * decay;
    output_error<<<n, width[LAYERS]>>>(net->a[LAYERS], target, net->d[LAYERS], width[LAYERS]);
    for (int l = LAYERS - 1; l >= 0; --l) {
        int in = width[l], out = width[l + 1];
        if (l > 0) {
            cublasSgemm(net->blas, CUBLAS_OP_T, CUBLAS_OP_N, in, n, out, &one, net->w[l], out, net->d[l + 1], out, &zero,
                        net->d[l], in);
            derivative<<<n, in>>>(net->d[l], net->a[l], in);
        }
        cublasSgemm(net->blas, CUBLAS_OP_N, CUBLAS_OP_T, out, in + 1, n, &step, net->d[l + 1], out, net->a[l], in + 1, &keep,
                    net->w[l], out);
    }
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    static float x[ROWS * 9], t[ROWS * 2], buf[32 * 32];
    struct network net;
    float *dx, *dt;
    for (int i = 0; i < ROWS; ++i) {
        for (int j = 0; j < 8; ++j) x[i * 9 + j] = rnd();
        x[i * 9 + 8] = 1;
        t[i * 2] = sinf(2 * x[i * 9] + x[i * 9 + 1]) + 0.5f * x[i * 9 + 2];
        t[i * 2 + 1] = x[i * 9 + 3] * x[i * 9 + 4] - 0.7f * x[i * 9 + 5] + 0.05f * rnd();
    }
    cudaMalloc((void **)&dx, sizeof x);
    cudaMalloc((void **)&dt, sizeof t);
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    cudaMemcpy(dt, t, sizeof t, cudaMemcpyHostToDevice);
    cublasCreate(&net.blas);
    for (int l = 0; l <= LAYERS; ++l) {
        cudaMalloc((void **)&net.a[l], BATCH * (width[l] + 1) * sizeof(float));
        cudaMalloc((void **)&net.d[l], BATCH * width[l] * sizeof(float));
    }
    for (int l = 0; l < LAYERS; ++l) {
        int n = (width[l] + 1) * width[l + 1];
        for (int i = 0; i < n; ++i) buf[i] = rnd() / sqrtf((float)width[l]);
        cudaMalloc((void **)&net.w[l], n * sizeof(float));
        cudaMemcpy(net.w[l], buf, n * sizeof(float), cudaMemcpyHostToDevice);
        DDP_PARAMETER(net.w[l], n, DDP_FLOAT32);
    }
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t row = (size_t)(s * BATCH % ROWS) + first;
        cudaMemcpy(net.a[0], dx + row * 9, count * 9 * sizeof(float), cudaMemcpyDeviceToDevice);
        forward(&net, (int)count);
        backward(&net, dt + row * 2, (int)count, 0.15f, 0.001f);
        DDP_STEP_PARAMETERS(0);
        if (s % 20 == 19 || s == 0) {
            float e[BATCH * 2], m = 0;
            cudaMemcpy(e, net.d[LAYERS], count * 2 * sizeof(float), cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < 2 * count; ++i) m += 0.5f * e[i] * e[i] / count;
            DDP_MEAN_AS("loss", &m);
            printf("step %d loss %.4f\n", s + 1, m);
        }
    }
    FILE *f = argc > 1 && DDP_RANK() == 0 ? fopen(argv[1], "wb") : NULL;
    for (int l = 0; l < LAYERS; ++l) {
        int n = (width[l] + 1) * width[l + 1];
        cudaMemcpy(buf, net.w[l], n * sizeof(float), cudaMemcpyDeviceToHost);
        if (f) fwrite(buf, sizeof(float), n, f);
    }
    if (f) fclose(f);
    cublasDestroy(net.blas);
    return 0;
}
