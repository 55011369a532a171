/* Skip-gram with negative sampling on a synthetic corpus with topics. Plain C habits. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define VOCAB 80
#define DIM 12
#define NEG 4
#define BATCH 64
#define CORPUS 4096
#define WINDOW 2

#define CHECK(x)                                                                    \
    do {                                                                            \
        cudaError_t e_ = (x);                                                       \
        if (e_ != cudaSuccess) {                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

static unsigned long long rng_state = 88172645463325252ull;

static unsigned rng_next(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (unsigned)(rng_state >> 32);
}

static float rng_float(void) { return (float)(rng_next() >> 8) / 16777216.0f; }

static int corpus[CORPUS];

static void make_corpus(void)
{
    int topic = 0;
    for (int i = 0; i < CORPUS; ++i) {
        if (rng_next() % 12 == 0)
            topic = (int)(rng_next() % 8);
        corpus[i] = topic * (VOCAB / 8) + (int)(rng_next() % (VOCAB / 8));
    }
}

/* err[i][t] = sigmoid(u . v) - label, t = 0 is the true context */
__global__ void score(const float *in, const float *out, const int *center, const int *target, float *err,
                      float *loss, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float total = 0.0f;
    for (int t = 0; t <= NEG; ++t) {
        float dot = 0.0f;
        for (int d = 0; d < DIM; ++d)
            dot += in[center[i] * DIM + d] * out[target[i * (NEG + 1) + t] * DIM + d];
        float p = 1.0f / (1.0f + expf(-dot));
        err[i * (NEG + 1) + t] = p - (t == 0 ? 1.0f : 0.0f);
        total -= logf((t == 0 ? p : 1.0f - p) + 1e-7f);
    }
    loss[i] = total;
}

/* one thread for a word and a dimension, so that sums have a fixed order */
__global__ void backward(const float *in, const float *out, const int *center, const int *target, const float *err,
                         float *gin, float *gout, int count)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= VOCAB * DIM)
        return;
    int word = id / DIM, d = id % DIM;
    float a = 0.0f, b = 0.0f;
    for (int i = 0; i < count; ++i)
        for (int t = 0; t <= NEG; ++t) {
            int k = i * (NEG + 1) + t;
            if (center[i] == word)
                a += err[k] * out[target[k] * DIM + d];
            if (target[k] == word)
                b += err[k] * in[center[i] * DIM + d];
        }
    gin[id] = a / count;
    gout[id] = b / count;
}

__global__ void sgd(float *w, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= lr * g[i];
}

int main(int argc, char **argv)
{
    const int n = VOCAB * DIM, steps = argc > 2 ? atoi(argv[2]) : 60;
    static float host[VOCAB * DIM];
    static int center[BATCH], target[BATCH * (NEG + 1)];
    static float hloss[BATCH];
    float *in, *out, *gin, *gout, *err, *loss;
    int *dcenter, *dtarget;

    make_corpus();
    CHECK(cudaMalloc(&in, n * sizeof(float)));
    CHECK(cudaMalloc(&out, n * sizeof(float)));
    CHECK(cudaMalloc(&gin, n * sizeof(float)));
    CHECK(cudaMalloc(&gout, n * sizeof(float)));
    CHECK(cudaMalloc(&err, sizeof(float) * BATCH * (NEG + 1)));
    CHECK(cudaMalloc(&loss, sizeof(float) * BATCH));
    CHECK(cudaMalloc(&dcenter, sizeof center));
    CHECK(cudaMalloc(&dtarget, sizeof target));
    for (int i = 0; i < n; ++i)
        host[i] = (rng_float() - 0.5f);
    CHECK(cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice));
    for (int i = 0; i < n; ++i)
        host[i] = (rng_float() - 0.5f);
    CHECK(cudaMemcpy(out, host, sizeof host, cudaMemcpyHostToDevice));
    DDP_PARAMETER(in, n, DDP_FLOAT32);
    DDP_PARAMETER(out, n, DDP_FLOAT32);
    DDP_GRADIENT(gin, n, DDP_FLOAT32);
    DDP_GRADIENT(gout, n, DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        for (size_t i = 0; i < count; ++i) {
            unsigned item = (unsigned)(step * BATCH + first + i);
            unsigned pos = WINDOW + (item * 37u) % (CORPUS - 2 * WINDOW);
            int offset = 1 + (int)(item % WINDOW);
            center[i] = corpus[pos];
            target[i * (NEG + 1)] = corpus[item & 1 ? pos + offset : pos - offset];
            for (int t = 1; t <= NEG; ++t)
                target[i * (NEG + 1) + t] = (int)(rng_next() % VOCAB);
        }
        CHECK(cudaMemcpy(dcenter, center, count * sizeof(int), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(dtarget, target, count * (NEG + 1) * sizeof(int), cudaMemcpyHostToDevice));
        score<<<1, BATCH>>>(in, out, dcenter, dtarget, err, loss, (int)count);
        backward<<<(n + 127) / 128, 128>>>(in, out, dcenter, dtarget, err, gin, gout, (int)count);
        DDP_STEP(0);
        sgd<<<(n + 127) / 128, 128>>>(in, gin, 4.0f, n);
        sgd<<<(n + 127) / 128, 128>>>(out, gout, 4.0f, n);
        if (step % 10 == 0 || step == steps - 1) {
            float mean = 0.0f;
            CHECK(cudaMemcpy(hloss, loss, count * sizeof(float), cudaMemcpyDeviceToHost));
            for (size_t i = 0; i < count; ++i)
                mean += hloss[i] / count;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0)
                printf("step %d loss %.4f\n", step, mean);
        }
    }
    CHECK(cudaDeviceSynchronize());
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        CHECK(cudaMemcpy(host, in, sizeof host, cudaMemcpyDeviceToHost));
        fwrite(host, sizeof host, 1, f);
        CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
        fwrite(host, sizeof host, 1, f);
        fclose(f);
    }
    return 0;
}
