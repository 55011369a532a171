/* Softmax regression with differential privacy: the gradient of each example is clipped to a norm before anything is
 * averaged, and Gaussian noise is added before the update. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define DIMS    20
#define CLASSES 5
#define ROWS    640
#define BATCH   64
#define NWEIGHT (DIMS * CLASSES)

#define CHK(x)                                                               \
    do {                                                                     \
        cudaError_t e = (x);                                                 \
        if (e) {                                                             \
            fprintf(stderr, "%d: %s\n", __LINE__, cudaGetErrorString(e));    \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

typedef struct {
    uint32_t a, b, c, d;
} rng_t; /* Jenkins' small one */

static uint32_t rng_next(rng_t *r)
{
    uint32_t e = r->a - (r->b << 27 | r->b >> 5);
    r->a = r->b ^ (r->c << 17 | r->c >> 15);
    r->b = r->c + r->d;
    r->c = r->d + e;
    r->d = e + r->a;
    return r->d;
}

static void rng_seed(rng_t *r, uint32_t seed)
{
    r->a = 0xf1ea5eed;
    r->b = r->c = r->d = seed;
    for (int i = 0; i < 20; ++i)
        rng_next(r);
}

static float rng_gauss(rng_t *r)
{
    float u = (rng_next(r) + 1.0f) / 4294967808.0f, v = rng_next(r) / 4294967296.0f;
    return sqrtf(-2 * logf(u)) * cosf(6.2831853f * v);
}

/* One thread an example: its own gradient, clipped, into row i of `each`. */
__global__ void clipped_gradients(const float *x, const int *label, const float *w, float *each, float *loss,
                                  float limit, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float z[CLASSES], top = -1e30f, sum = 0, xx = 0, zz = 0;
    for (int c = 0; c < CLASSES; ++c) {
        z[c] = 0;
        for (int k = 0; k < DIMS; ++k)
            z[c] += x[i * DIMS + k] * w[k * CLASSES + c];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < CLASSES; ++c)
        sum += expf(z[c] - top);
    loss[i] = logf(sum) + top - z[label[i]];
    for (int c = 0; c < CLASSES; ++c) {
        z[c] = expf(z[c] - top) / sum - (c == label[i]);
        zz += z[c] * z[c];
    }
    for (int k = 0; k < DIMS; ++k)
        xx += x[i * DIMS + k] * x[i * DIMS + k];
    float norm = sqrtf(xx * zz), scale = norm > limit ? limit / norm : 1.0f;
    for (int k = 0; k < DIMS; ++k)
        for (int c = 0; c < CLASSES; ++c)
            each[i * NWEIGHT + k * CLASSES + c] = scale * z[c] * x[i * DIMS + k];
}

__global__ void average(const float *each, float *g, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= NWEIGHT)
        return;
    float s = 0;
    for (int i = 0; i < n; ++i)
        s += each[i * NWEIGHT + t];
    g[t] = s / n;
}

__global__ void noisy_update(float *w, const float *g, const float *noise, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < NWEIGHT)
        w[t] -= rate * (g[t] + noise[t]);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    rng_t data, privacy;
    rng_seed(&data, 11);
    rng_seed(&privacy, 12);

    static float x[ROWS * DIMS], centre[CLASSES * DIMS], w[NWEIGHT], noise[NWEIGHT];
    static int label[ROWS];
    for (int i = 0; i < CLASSES * DIMS; ++i)
        centre[i] = 0.6f * rng_gauss(&data);
    for (int i = 0; i < ROWS; ++i) {
        label[i] = rng_next(&data) % CLASSES;
        for (int k = 0; k < DIMS; ++k)
            x[i * DIMS + k] = centre[label[i] * DIMS + k] + rng_gauss(&data);
    }

    float *dx, *dw, *dg, *dnoise, *each, *loss;
    int *dlabel;
    CHK(cudaMalloc((void **)&dx, sizeof x));
    CHK(cudaMalloc((void **)&dlabel, sizeof label));
    CHK(cudaMalloc((void **)&dw, sizeof w));
    CHK(cudaMalloc((void **)&dg, sizeof w));
    CHK(cudaMalloc((void **)&dnoise, sizeof w));
    CHK(cudaMalloc((void **)&each, BATCH * NWEIGHT * sizeof(float)));
    CHK(cudaMalloc((void **)&loss, BATCH * sizeof(float)));
    CHK(cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice));
    CHK(cudaMemcpy(dlabel, label, sizeof label, cudaMemcpyHostToDevice));
    CHK(cudaMemset(dw, 0, sizeof w));
    DDP_PARAMETER(dw, NWEIGHT, DDP_FLOAT32);
    DDP_GRADIENT(dg, NWEIGHT, DDP_FLOAT32);

    const float limit = 1.5f, sigma = 0.8f;
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        size_t at = (size_t)step * BATCH % ROWS + first;

        clipped_gradients<<<(n + 31) / 32, 32>>>(dx + at * DIMS, dlabel + at, dw, each, loss, limit, n);
        average<<<(NWEIGHT + 31) / 32, 32>>>(each, dg, n);
        for (int i = 0; i < NWEIGHT; ++i)
            noise[i] = sigma * limit / BATCH * rng_gauss(&privacy);
        CHK(cudaMemcpy(dnoise, noise, sizeof noise, cudaMemcpyHostToDevice));
        DDP_STEP(0);
        noisy_update<<<(NWEIGHT + 31) / 32, 32>>>(dw, dg, dnoise, 0.8f);

        if (step % 10 == 0 || step == steps - 1) {
            float part[BATCH], mean = 0;
            CHK(cudaMemcpy(part, loss, n * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; ++i)
                mean += part[i] / n;
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0)
                printf("%d: loss %.4f\n", step, mean);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        CHK(cudaMemcpy(w, dw, sizeof w, cudaMemcpyDeviceToHost));
        FILE *f = fopen(argv[1], "wb");
        fwrite(w, sizeof(float), NWEIGHT, f);
        fclose(f);
    }
    return 0;
}
