/* Two spirals, a perceptron with one hidden layer, SGD with Nesterov momentum. Plain C style. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ddprun.h"

#define N_DATA   640
#define BATCH    40
#define N_HIDDEN 48
#define N_CLASS  2
#define MOMENTUM 0.8f

#define CK(call)                                                                            \
    do {                                                                                    \
        cudaError_t e_ = (call);                                                            \
        if (e_ != cudaSuccess) {                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_));     \
            exit(2);                                                                        \
        }                                                                                   \
    } while (0)

static unsigned rng = 20061;
static float frand(void)
{
    rng = rng * 1664525u + 1013904223u;
    return (rng >> 8) * (1.0f / 16777216.0f);
}

__global__ void hidden_forward(const float *x, const float *w1, const float *b1, float *h, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * N_HIDDEN)
        return;
    int i = t / N_HIDDEN, j = t % N_HIDDEN;
    h[t] = tanhf(b1[j] + x[2 * i] * w1[j] + x[2 * i + 1] * w1[N_HIDDEN + j]);
}

__global__ void output_forward(const float *h, const float *w2, const float *b2, const int *label, float *dlogit,
                               float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float z[N_CLASS];
    for (int c = 0; c < N_CLASS; ++c) {
        z[c] = b2[c];
        for (int j = 0; j < N_HIDDEN; ++j)
            z[c] += h[i * N_HIDDEN + j] * w2[j * N_CLASS + c];
    }
    float top = fmaxf(z[0], z[1]), sum = expf(z[0] - top) + expf(z[1] - top);
    loss[i] = top + logf(sum) - z[label[i]];
    for (int c = 0; c < N_CLASS; ++c)
        dlogit[i * N_CLASS + c] = (expf(z[c] - top) / sum - (label[i] == c)) / n;
}

__global__ void output_backward(const float *h, const float *dlogit, float *dw2, float *db2, int n)
{
    int t = threadIdx.x;
    if (t < N_HIDDEN * N_CLASS) {
        float g = 0;
        for (int i = 0; i < n; ++i)
            g += h[i * N_HIDDEN + t / N_CLASS] * dlogit[i * N_CLASS + t % N_CLASS];
        dw2[t] = g;
    }
    if (t < N_CLASS) {
        float g = 0;
        for (int i = 0; i < n; ++i)
            g += dlogit[i * N_CLASS + t];
        db2[t] = g;
    }
}

__global__ void hidden_backward(const float *x, const float *h, const float *w2, const float *dlogit, float *dw1,
                                float *db1, int n)
{
    int j = threadIdx.x;
    float gx = 0, gy = 0, gb = 0;
    for (int i = 0; i < n; ++i) {
        float a = h[i * N_HIDDEN + j], d = 0;
        for (int c = 0; c < N_CLASS; ++c)
            d += dlogit[i * N_CLASS + c] * w2[j * N_CLASS + c];
        d *= 1 - a * a;
        gx += d * x[2 * i];
        gy += d * x[2 * i + 1];
        gb += d;
    }
    dw1[j] = gx;
    dw1[N_HIDDEN + j] = gy;
    db1[j] = gb;
}

__global__ void nesterov(float *w, float *vel, const float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float v = MOMENTUM * vel[i] + g[i];
    vel[i] = v;
    w[i] -= lr * (g[i] + MOMENTUM * v);
}

struct tensor {
    float *w, *g, *v;
    int n;
};

static void tensor_init(struct tensor *t, int n, float scale)
{
    float *tmp = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < n; ++i)
        tmp[i] = scale * (2 * frand() - 1);
    t->n = n;
    CK(cudaMalloc((void **)&t->w, n * sizeof(float)));
    CK(cudaMalloc((void **)&t->g, n * sizeof(float)));
    CK(cudaMalloc((void **)&t->v, n * sizeof(float)));
    CK(cudaMemcpy(t->w, tmp, n * sizeof(float), cudaMemcpyHostToDevice));
    CK(cudaMemset(t->v, 0, n * sizeof(float)));
    DDP_PARAMETER(t->w, n, DDP_FLOAT32);
    DDP_STATE(t->v, n, DDP_FLOAT32);
    DDP_GRADIENT(t->g, n, DDP_FLOAT32);
    free(tmp);
}

/* Linear warm-up over the first `warm` examples, then one over the square root. */
static float rate_at(size_t examples, size_t warm)
{
    const float peak = 0.25f;
    return examples < warm ? peak * (examples + 1) / warm : peak * sqrtf((float)warm / examples);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    float *x = (float *)malloc(2 * N_DATA * sizeof(float));
    int *y = (int *)malloc(N_DATA * sizeof(int));
    for (int i = 0; i < N_DATA; ++i) {
        float r = 0.2f + 1.6f * frand(), a = 1.5f * r;
        y[i] = frand() < 0.5f;
        if (y[i])
            a += 3.14159265f;
        x[2 * i] = r * cosf(a) + 0.1f * (frand() - 0.5f);
        x[2 * i + 1] = r * sinf(a) + 0.1f * (frand() - 0.5f);
    }
    float *dx, *h, *dlogit, *loss;
    int *dy;
    CK(cudaMalloc((void **)&dx, 2 * N_DATA * sizeof(float)));
    CK(cudaMalloc((void **)&dy, N_DATA * sizeof(int)));
    CK(cudaMalloc((void **)&h, BATCH * N_HIDDEN * sizeof(float)));
    CK(cudaMalloc((void **)&dlogit, BATCH * N_CLASS * sizeof(float)));
    CK(cudaMalloc((void **)&loss, BATCH * sizeof(float)));
    CK(cudaMemcpy(dx, x, 2 * N_DATA * sizeof(float), cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dy, y, N_DATA * sizeof(int), cudaMemcpyHostToDevice));

    struct tensor w1, b1, w2, b2;
    tensor_init(&w1, 2 * N_HIDDEN, 1.5f);
    tensor_init(&b1, N_HIDDEN, 0.5f);
    tensor_init(&w2, N_HIDDEN * N_CLASS, 0.2f);
    tensor_init(&b2, N_CLASS, 0.0f);
    struct tensor *all[4] = {&w1, &b1, &w2, &b2};

    size_t seen = 0;
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        size_t at = (size_t)(step % (N_DATA / BATCH)) * BATCH + first;

        hidden_forward<<<(n * N_HIDDEN + 127) / 128, 128>>>(dx + 2 * at, w1.w, b1.w, h, n);
        output_forward<<<(n + 31) / 32, 32>>>(h, w2.w, b2.w, dy + at, dlogit, loss, n);
        output_backward<<<1, 128>>>(h, dlogit, w2.g, b2.g, n);
        hidden_backward<<<1, N_HIDDEN>>>(dx + 2 * at, h, w2.w, dlogit, w1.g, b1.g, n);

        DDP_STEP(0);
        float lr = rate_at(seen, 400);
        for (int k = 0; k < 4; ++k)
            nesterov<<<(all[k]->n + 127) / 128, 128>>>(all[k]->w, all[k]->v, all[k]->g, all[k]->n, lr);
        seen += count;

        if (step % 15 == 0 || step == steps - 1) {
            float part[BATCH], mean = 0;
            CK(cudaMemcpy(part, loss, n * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; ++i)
                mean += part[i] / n;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0)
                printf("%3d  loss %.5f\n", step, mean);
        }
    }

    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        for (int k = 0; k < 4; ++k) {
            float *tmp = (float *)malloc(all[k]->n * sizeof(float));
            CK(cudaMemcpy(tmp, all[k]->w, all[k]->n * sizeof(float), cudaMemcpyDeviceToHost));
            fwrite(tmp, sizeof(float), all[k]->n, f);
            free(tmp);
        }
        fclose(f);
    }
    return 0;
}
