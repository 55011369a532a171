/*
 * flipmix.cu - a linear classifier of small sensor readings, trained on blends of two readings.
 *
 * Each reading of a batch is blended with its mirror image in the batch (first with last, and so on), features and
 * one-hot labels alike, with a weight that follows the step.
 */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FEATURES 12
#define CLASSES 4
#define BATCH 32
#define ITEMS 256
#define STEPS 14
#define WEIGHTS (FEATURES * CLASSES)

#define CU(call)                                                                              \
    do {                                                                                      \
        cudaError_t e_ = (call);                                                              \
        if (e_ != cudaSuccess) {                                                              \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_));       \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

static unsigned state = 12345u;

static float
uniform(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 16777216.0f;
}

__global__ void
blend(float *out_x, float *out_y, const float *x, const int *label, int n, float lambda)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int j = n - 1 - i;
    for (int f = 0; f < FEATURES; ++f)
        out_x[i * FEATURES + f] = lambda * x[i * FEATURES + f] + (1.0f - lambda) * x[j * FEATURES + f];
    for (int c = 0; c < CLASSES; ++c)
        out_y[i * CLASSES + c] = lambda * (label[i] == c) + (1.0f - lambda) * (label[j] == c);
}

__global__ void
softmax_error(float *error, float *loss, const float *x, const float *y, const float *w, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float z[CLASSES], top = -1e30f, sum = 0.0f, l = 0.0f;
    for (int c = 0; c < CLASSES; ++c) {
        z[c] = 0.0f;
        for (int f = 0; f < FEATURES; ++f)
            z[c] += x[i * FEATURES + f] * w[f * CLASSES + c];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < CLASSES; ++c)
        sum += expf(z[c] - top);
    for (int c = 0; c < CLASSES; ++c) {
        float log_p = z[c] - top - logf(sum);
        l -= y[i * CLASSES + c] * log_p;
        error[i * CLASSES + c] = (expf(log_p) - y[i * CLASSES + c]) / n;
    }
    loss[i] = l;
}

__global__ void
outer_sum(float *dw, const float *x, const float *error, int n)
{
    int k = threadIdx.x, f = k / CLASSES, c = k % CLASSES;
    float s = 0.0f;
    for (int i = 0; i < n; ++i)
        s += x[i * FEATURES + f] * error[i * CLASSES + c];
    dw[k] = s;
}

__global__ void
descend(float *w, float *v, const float *dw, float rate)
{
    int k = threadIdx.x;
    v[k] = 0.8f * v[k] + dw[k];
    w[k] -= rate * v[k];
}

int
main(void)
{
    static float readings[ITEMS * FEATURES], w0[WEIGHTS], host_loss[BATCH];
    static int kinds[ITEMS];
    for (int i = 0; i < ITEMS; ++i) {
        kinds[i] = (int)(uniform() * CLASSES);
        for (int f = 0; f < FEATURES; ++f)
            readings[i * FEATURES + f] = uniform() - 0.5f + (f % CLASSES == kinds[i] ? 0.8f : 0.0f);
    }
    for (int k = 0; k < WEIGHTS; ++k)
        w0[k] = 0.1f * (uniform() - 0.5f);

    float *x, *mx, *my, *error, *loss, *w, *dw, *v;
    int *label;
    CU(cudaMalloc(&x, BATCH * FEATURES * sizeof(float)));
    CU(cudaMalloc(&mx, BATCH * FEATURES * sizeof(float)));
    CU(cudaMalloc(&my, BATCH * CLASSES * sizeof(float)));
    CU(cudaMalloc(&error, BATCH * CLASSES * sizeof(float)));
    CU(cudaMalloc(&loss, BATCH * sizeof(float)));
    CU(cudaMalloc(&label, BATCH * sizeof(int)));
    CU(cudaMalloc(&w, sizeof(w0)));
    CU(cudaMalloc(&dw, sizeof(w0)));
    CU(cudaMalloc(&v, sizeof(w0)));
    CU(cudaMemcpy(w, w0, sizeof(w0), cudaMemcpyHostToDevice));
    CU(cudaMemset(v, 0, sizeof(w0)));
    DDP_PARAMETER(w, WEIGHTS, DDP_FLOAT32);
    DDP_STATE(v, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(dw, WEIGHTS, DDP_FLOAT32);

    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        size_t at = (size_t)(step * BATCH) % ITEMS + first;
        float lambda = 0.9f - 0.02f * (float)(step % 5);
        CU(cudaMemcpy(x, readings + at * FEATURES, count * FEATURES * sizeof(float), cudaMemcpyHostToDevice));
        CU(cudaMemcpy(label, kinds + at, count * sizeof(int), cudaMemcpyHostToDevice));
        blend<<<1, BATCH>>>(mx, my, x, label, (int)count, lambda);
        softmax_error<<<1, BATCH>>>(error, loss, mx, my, w, (int)count);
        outer_sum<<<1, WEIGHTS>>>(dw, mx, error, (int)count);
        DDP_STEP(0);
        descend<<<1, WEIGHTS>>>(w, v, dw, 0.5f);

        CU(cudaMemcpy(host_loss, loss, count * sizeof(float), cudaMemcpyDeviceToHost));
        float mean = 0.0f;
        for (size_t i = 0; i < count; ++i)
            mean += host_loss[i] / (float)count;
        DDP_MEAN(&mean);
        if (DDP_RANK() == 0)
            printf("step %d loss %.5f\n", step, mean);
    }
    CU(cudaDeviceSynchronize());
    return 0;
}
