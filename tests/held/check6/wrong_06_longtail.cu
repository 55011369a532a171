/* Long-tailed classification, one hidden layer, logits adjusted by the log prior of the classes seen so far. Nesterov. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime.h>
#include "ddprun.h"

enum { F = 10, U = 32, C = 6, BATCH = 36, TOTAL = 1080 };

#define RUN(x) if ((x) != cudaSuccess) { fprintf(stderr, "failed: %s, line %d\n", #x, __LINE__); return 1; }

static unsigned long long state = 1234567;
static double uniform(void)
{
    state = state * 2862933555777941757ULL + 3037000493ULL;
    return (double)(state >> 33) / 2147483648.0;
}

static float features[TOTAL][F];
static int classes[TOTAL];

static void make_data(void)
{
    float mean[C][F];
    for (int c = 0; c < C; ++c)
        for (int f = 0; f < F; ++f) mean[c][f] = (float)(2.0 * uniform() - 1.0);
    for (int i = 0; i < TOTAL; ++i) {
        int c = 0;
        while (c < C - 1 && uniform() < 0.55) ++c;
        classes[i] = c;
        for (int f = 0; f < F; ++f) features[i][f] = mean[c][f] + 0.9f * (float)(uniform() + uniform() - 1.0);
    }
}

/* all parameters in one block: w1 [F][U], b1 [U], w2 [U][C], b2 [C] */
#define W1 0
#define B1 (F * U)
#define W2 (B1 + U)
#define B2 (W2 + U * C)
#define ALL (B2 + C)

__global__ void forward(const float *theta, const float *x, const int *y, const float *prior, float *h, float *dz,
                        float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z[C], top = -1e30f, sum = 0.f;
    for (int u = 0; u < U; ++u) {
        float s = theta[B1 + u];
        for (int f = 0; f < F; ++f) s += x[i * F + f] * theta[W1 + f * U + u];
        h[i * U + u] = tanhf(s);
    }
    for (int c = 0; c < C; ++c) {
        z[c] = theta[B2 + c] + prior[c];
        for (int u = 0; u < U; ++u) z[c] += h[i * U + u] * theta[W2 + u * C + c];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < C; ++c) sum += expf(z[c] - top);
    for (int c = 0; c < C; ++c) dz[i * C + c] = (expf(z[c] - top) / sum - (float)(y[i] == c)) / (float)n;
    loss[i] = top + logf(sum) - z[y[i]];
}

__global__ void backward(const float *theta, const float *x, const float *h, const float *dz, float *grad, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= ALL) return;
    float g = 0.f;
    if (t >= W2) {
        int c = (t - (t < B2 ? W2 : B2)) % C, u = (t - W2) / C;
        for (int i = 0; i < n; ++i) g += dz[i * C + c] * (t < B2 ? h[i * U + u] : 1.f);
    } else {
        int u = t % U, f = t / U;
        for (int i = 0; i < n; ++i) {
            float d = 0.f, a = h[i * U + u];
            for (int c = 0; c < C; ++c) d += dz[i * C + c] * theta[W2 + u * C + c];
            g += d * (1.f - a * a) * (t < B1 ? x[i * F + f] : 1.f);
        }
    }
    grad[t] = g;
}

__global__ void nesterov(float *theta, float *velocity, const float *grad, float rate, float mu)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= ALL) return;
    float v = mu * velocity[t] - rate * grad[t];
    velocity[t] = v;
    theta[t] += mu * v - rate * grad[t];
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    static float theta_h[ALL], loss_h[BATCH];
    float *theta, *velocity, *grad, *x, *prior, *h, *dz, *loss, prior_h[C];
    double seen[C];
    int *y;

    make_data();
    for (int t = 0; t < ALL; ++t) theta_h[t] = (float)(uniform() - 0.5) * 0.6f;
    RUN(cudaMalloc(&theta, sizeof theta_h));
    RUN(cudaMalloc(&velocity, sizeof theta_h));
    RUN(cudaMalloc(&grad, sizeof theta_h));
    RUN(cudaMalloc(&x, BATCH * F * sizeof(float)));
    RUN(cudaMalloc(&y, BATCH * sizeof(int)));
    RUN(cudaMalloc(&prior, C * sizeof(float)));
    RUN(cudaMalloc(&h, BATCH * U * sizeof(float)));
    RUN(cudaMalloc(&dz, BATCH * C * sizeof(float)));
    RUN(cudaMalloc(&loss, BATCH * sizeof(float)));
    RUN(cudaMemcpy(theta, theta_h, sizeof theta_h, cudaMemcpyHostToDevice));
    RUN(cudaMemset(velocity, 0, sizeof theta_h));
    DDP_PARAMETER(theta, ALL, DDP_FLOAT32);
    DDP_STATE(velocity, ALL, DDP_FLOAT32);
    DDP_GRADIENT(grad, ALL, DDP_FLOAT32);
    for (int c = 0; c < C; ++c) seen[c] = 1.0;

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        double all = 0.0;
        DDP_SHARD(BATCH, &first, &count);
        int at = step * BATCH % TOTAL + (int)first, n = (int)count;
        RUN(cudaMemcpy(x, features[at], n * sizeof features[0], cudaMemcpyHostToDevice));
        RUN(cudaMemcpy(y, classes + at, n * sizeof(int), cudaMemcpyHostToDevice));
        for (int i = 0; i < n; ++i) seen[classes[at + i]] += 1.0;
        DDP_REDUCE(seen, C, DDP_FLOAT64, DDP_OP_SUM, 0);
        for (int c = 0; c < C; ++c) all += seen[c];
        for (int c = 0; c < C; ++c) prior_h[c] = (float)log(seen[c] / all);
        RUN(cudaMemcpy(prior, prior_h, sizeof prior_h, cudaMemcpyHostToDevice));
        forward<<<(n + 31) / 32, 32>>>(theta, x, y, prior, h, dz, loss, n);
        backward<<<(ALL + 63) / 64, 64>>>(theta, x, h, dz, grad, n);
        DDP_STEP(0);
        nesterov<<<(ALL + 63) / 64, 64>>>(theta, velocity, grad, 0.15f, 0.9f);
        if (step % 10 == 0 || step == steps - 1) {
            double mean = 0.0;
            RUN(cudaMemcpy(loss_h, loss, n * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; ++i) mean += loss_h[i] / n;
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0) printf("step %d, loss %.4f\n", step, mean);
        }
    }
    RUN(cudaMemcpy(theta_h, theta, sizeof theta_h, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(theta_h, 1, sizeof theta_h, f);
        fclose(f);
    }
    return 0;
}
