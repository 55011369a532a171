/* Multinomial logistic regression with differential privacy: the gradient of each sample is clipped to norm CLIP, and
 * Gaussian noise is added to the mean. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define FEATURES 30
#define CLASSES 8
#define BATCH 64
#define SAMPLES 960
#define WEIGHTS (CLASSES * (FEATURES + 1))
#define CLIP 1.0f
#define SIGMA 0.4f

static void fail_on(cudaError_t e, int line)
{
    if (e == cudaSuccess)
        return;
    fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e));
    exit(1);
}
#define GPU(e) fail_on((e), __LINE__)

struct stream {
    unsigned long long s;
};
static float uniform(struct stream *r)
{
    r->s = r->s * 6364136223846793005ULL + 1442695040888963407ULL;
    return ((float)(r->s >> 41) + 0.5f) / 8388608.f;
}
static float normal(struct stream *r)
{
    float a = uniform(r), b = uniform(r);
    return sqrtf(-2.f * logf(a)) * cosf(6.2831853f * b);
}

__global__ void sample_gradients(const float *w, const float *x, const int *y, float *delta, float *loss, float clip, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float z[CLASSES], top = -1e30f, sum = 0.f, dd = 0.f, xx = 1.f;
    for (int c = 0; c < CLASSES; ++c) {
        z[c] = w[c * (FEATURES + 1) + FEATURES];
        for (int f = 0; f < FEATURES; ++f)
            z[c] += w[c * (FEATURES + 1) + f] * x[i * FEATURES + f];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < CLASSES; ++c)
        sum += expf(z[c] - top);
    loss[i] = logf(sum) + top - z[y[i]];
    for (int c = 0; c < CLASSES; ++c) {
        z[c] = expf(z[c] - top) / sum - (c == y[i] ? 1.f : 0.f);
        dd += z[c] * z[c];
    }
    for (int f = 0; f < FEATURES; ++f)
        xx += x[i * FEATURES + f] * x[i * FEATURES + f];
    float norm = sqrtf(dd * xx), scale = norm > clip ? clip / norm : 1.f;
    for (int c = 0; c < CLASSES; ++c)
        delta[i * CLASSES + c] = z[c] * scale;
}

__global__ void mean_gradient(const float *x, const float *delta, float *g, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= WEIGHTS)
        return;
    int c = t / (FEATURES + 1), f = t % (FEATURES + 1);
    float s = 0.f;
    for (int i = 0; i < n; ++i)
        s += delta[i * CLASSES + c] * (f < FEATURES ? x[i * FEATURES + f] : 1.f);
    g[t] = s / n;
}

__global__ void noisy_step(float *w, const float *g, const float *noise, float scale, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < WEIGHTS)
        w[t] -= rate * (g[t] + scale * noise[t]);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60, s, i, f;
    static float X[SAMPLES * FEATURES], centre[CLASSES * FEATURES], noise_h[WEIGHTS], w_h[WEIGHTS], loss_h[BATCH];
    static int Y[SAMPLES];
    struct stream data = {1}, privacy = {0x5eed};
    float *w, *g, *x, *delta, *loss, *noise;
    int *y;

    for (i = 0; i < CLASSES * FEATURES; ++i)
        centre[i] = normal(&data);
    for (i = 0; i < SAMPLES; ++i) {
        Y[i] = (int)(uniform(&data) * CLASSES) % CLASSES;
        for (f = 0; f < FEATURES; ++f)
            X[i * FEATURES + f] = 0.4f * centre[Y[i] * FEATURES + f] + 0.4f * normal(&data);
    }
    GPU(cudaMalloc((void **)&w, sizeof w_h));
    GPU(cudaMalloc((void **)&g, sizeof w_h));
    GPU(cudaMalloc((void **)&noise, sizeof w_h));
    GPU(cudaMalloc((void **)&x, BATCH * FEATURES * sizeof(float)));
    GPU(cudaMalloc((void **)&delta, BATCH * CLASSES * sizeof(float)));
    GPU(cudaMalloc((void **)&loss, BATCH * sizeof(float)));
    GPU(cudaMalloc((void **)&y, BATCH * sizeof(int)));
    GPU(cudaMemset(w, 0, sizeof w_h));
    DDP_PARAMETER(w, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(g, WEIGHTS, DDP_FLOAT32);

    for (s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, at = s * BATCH % SAMPLES + (int)first;
        GPU(cudaMemcpy(x, X + at * FEATURES, n * FEATURES * sizeof(float), cudaMemcpyHostToDevice));
        GPU(cudaMemcpy(y, Y + at, n * sizeof(int), cudaMemcpyHostToDevice));
        sample_gradients<<<(n + 31) / 32, 32>>>(w, x, y, delta, loss, CLIP, n);
        mean_gradient<<<(WEIGHTS + 63) / 64, 64>>>(x, delta, g, n);
        DDP_STEP(0);
        for (i = 0; i < WEIGHTS; ++i)
            noise_h[i] = normal(&privacy);
        GPU(cudaMemcpy(noise, noise_h, sizeof noise_h, cudaMemcpyHostToDevice));
        noisy_step<<<(WEIGHTS + 63) / 64, 64>>>(w, g, noise, SIGMA * CLIP / BATCH, 1.f);
        if (s % 10 == 0 || s == steps - 1) {
            float mean = 0.f;
            GPU(cudaMemcpy(loss_h, loss, n * sizeof(float), cudaMemcpyDeviceToHost));
            for (i = 0; i < n; ++i)
                mean += loss_h[i] / n;
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0)
                printf("step %d loss %.4f\n", s, mean);
        }
    }
    GPU(cudaMemcpy(w_h, w, sizeof w_h, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *out = fopen(argv[1], "wb");
        fwrite(w_h, 1, sizeof w_h, out);
        fclose(out);
    }
    return 0;
}
