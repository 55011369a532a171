/* Regression of a robot arm's tip from joint angles. The update is fused into the backward pass: each gemm adds
 * -rate * gradient to its weights at once, so that no gradient buffers are needed. Columns are samples (column-major). */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define JOINTS 4
#define H1 32
#define H2 24
#define TIP 3
#define BATCH 40
#define SAMPLES 800
#define STEPS 60

#define C(x) if ((x) != cudaSuccess) fail(__LINE__)
#define B(x) if ((x) != CUBLAS_STATUS_SUCCESS) fail(__LINE__)

static void fail(int line)
{
    fprintf(stderr, "wrong answer from the device at line %d\n", line);
    exit(1);
}

static unsigned long seed = 5;
static float rnd(void)
{
    seed = (seed * 16807ul) % 2147483647ul;
    return (float)seed / 2147483647.0f * 2.0f - 1.0f;
}

__global__ void add_bias_tanh(float *a, const float *b, int rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * n)
        a[i] = tanhf(a[i] + b[i % rows]);
}

__global__ void tip_error(float *out, const float *b, const float *want, float *sq, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < TIP * n) {
        float e = out[i] + b[i % TIP] - want[i];
        sq[i] = e * e;
        out[i] = e / n;
    }
}

__global__ void tanh_back(float *d, const float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        d[i] *= 1.0f - a[i] * a[i];
}

struct layer {
    float *w;     /* out x in */
    float *b;     /* out */
    float *a;     /* activations, out x BATCH */
    float *delta; /* their gradient */
    int in, out;
};

static cublasHandle_t handle;
static float *ones; /* BATCH ones, for the biases */

static float *reserve(int n)
{
    float *p;
    C(cudaMalloc((void **)&p, n * sizeof(float)));
    C(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

static void layer_init(struct layer *l, int in, int out)
{
    float *h = (float *)malloc(in * out * sizeof(float));
    l->in = in;
    l->out = out;
    l->w = reserve(in * out);
    l->b = reserve(out);
    l->a = reserve(out * BATCH);
    l->delta = reserve(out * BATCH);
    for (int i = 0; i < in * out; ++i)
        h[i] = rnd() * sqrtf(2.0f / in);
    C(cudaMemcpy(l->w, h, in * out * sizeof(float), cudaMemcpyHostToDevice));
    free(h);
    DDP_PARAMETER(l->w, in * out, DDP_FLOAT32);
    DDP_PARAMETER(l->b, out, DDP_FLOAT32);
}

static void layer_forward(struct layer *l, const float *x, int n)
{
    const float one = 1.0f, zero = 0.0f;
    B(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, l->out, n, l->in, &one, l->w, l->out, x, l->in, &zero, l->a, l->out));
}

/* dx = W^T delta */
static void layer_input_delta(const struct layer *l, float *dx, int n)
{
    const float one = 1.0f, zero = 0.0f;
    B(cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, l->in, n, l->out, &one, l->w, l->out, l->delta, l->out, &zero, dx,
                  l->in));
}

/* W -= rate * delta x^T, b -= rate * delta 1 */
static void layer_learn(const struct layer *l, const float *x, int n, float rate)
{
    const float minus = -rate, one = 1.0f;
    B(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, l->out, l->in, n, &minus, l->delta, l->out, x, l->in, &one, l->w,
                  l->out));
    B(cublasSgemv(handle, CUBLAS_OP_N, l->out, n, &minus, l->delta, l->out, ones, 1, &one, l->b, 1));
}

int main(int argc, char **argv)
{
    static float hx[SAMPLES * JOINTS], hy[SAMPLES * TIP], h1[BATCH];
    for (int s = 0; s < SAMPLES; ++s) {
        float yaw = 1.5f * rnd(), a = 1.2f * rnd(), b = a + 1.2f * rnd(), c = b + rnd();
        hx[s * JOINTS] = yaw;
        hx[s * JOINTS + 1] = a;
        hx[s * JOINTS + 2] = b - a;
        hx[s * JOINTS + 3] = c - b;
        float reach = cosf(a) + 0.8f * cosf(b) + 0.4f * cosf(c);
        hy[s * TIP] = reach * cosf(yaw);
        hy[s * TIP + 1] = reach * sinf(yaw);
        hy[s * TIP + 2] = sinf(a) + 0.8f * sinf(b) + 0.4f * sinf(c);
    }
    for (int i = 0; i < BATCH; ++i)
        h1[i] = 1.0f;
    B(cublasCreate(&handle));
    float *x = reserve(SAMPLES * JOINTS), *y = reserve(SAMPLES * TIP), *sq = reserve(BATCH * TIP);
    ones = reserve(BATCH);
    C(cudaMemcpy(x, hx, sizeof(hx), cudaMemcpyHostToDevice));
    C(cudaMemcpy(y, hy, sizeof(hy), cudaMemcpyHostToDevice));
    C(cudaMemcpy(ones, h1, sizeof(h1), cudaMemcpyHostToDevice));

    struct layer l1, l2, l3;
    layer_init(&l1, JOINTS, H1);
    layer_init(&l2, H1, H2);
    layer_init(&l3, H2, TIP);

    for (int step = 0; step < STEPS; ++step) {
        const float rate = 0.12f;
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        size_t at = (size_t)step * BATCH % SAMPLES + first;
        const float *xb = x + at * JOINTS, *yb = y + at * TIP;

        layer_forward(&l1, xb, n);
        add_bias_tanh<<<(H1 * n + 63) / 64, 64>>>(l1.a, l1.b, H1, n);
        layer_forward(&l2, l1.a, n);
        add_bias_tanh<<<(H2 * n + 63) / 64, 64>>>(l2.a, l2.b, H2, n);
        layer_forward(&l3, l2.a, n);
        C(cudaMemcpy(l3.delta, l3.a, TIP * n * sizeof(float), cudaMemcpyDeviceToDevice));
        tip_error<<<(TIP * n + 63) / 64, 64>>>(l3.delta, l3.b, yb, sq, n);

        layer_learn(&l3, l2.a, n, rate);
        layer_input_delta(&l3, l2.delta, n);
        tanh_back<<<(H2 * n + 63) / 64, 64>>>(l2.delta, l2.a, H2 * n);
        layer_input_delta(&l2, l1.delta, n);
        layer_learn(&l2, l1.a, n, rate);
        tanh_back<<<(H1 * n + 63) / 64, 64>>>(l1.delta, l1.a, H1 * n);
        layer_learn(&l1, xb, n, rate);
        DDP_STEP_PARAMETERS(0);

        if (step % 10 == 0 || step == STEPS - 1) {
            float h[BATCH * TIP], mse = 0.0f;
            C(cudaMemcpy(h, sq, TIP * n * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < TIP * n; ++i)
                mse += h[i] / n;
            DDP_MEAN(&mse);
            if (DDP_RANK() == 0)
                printf("%d\t%.5f\n", step, mse);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        struct layer *all[3] = {&l1, &l2, &l3};
        static float h[H1 * H2];
        for (int k = 0; k < 3; ++k) {
            C(cudaMemcpy(h, all[k]->w, all[k]->in * all[k]->out * sizeof(float), cudaMemcpyDeviceToHost));
            fwrite(h, sizeof(float), all[k]->in * all[k]->out, f);
            C(cudaMemcpy(h, all[k]->b, all[k]->out * sizeof(float), cudaMemcpyDeviceToHost));
            fwrite(h, sizeof(float), all[k]->out, f);
        }
        fclose(f);
    }
    cublasDestroy(handle);
    return 0;
}
