/* REINFORCE on a contextual bandit: a linear policy over six arms, rewards in double precision, a moving baseline. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define FEATURES 32
#define ARMS     6
#define BATCH    64

#define TRY(e)                                                                  \
    do {                                                                        \
        cudaError_t err_ = (e);                                                 \
        if (err_ != cudaSuccess) {                                              \
            fprintf(stderr, "%d: %s\n", __LINE__, cudaGetErrorString(err_));    \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

__host__ __device__ static inline double draw(uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t x = ((uint64_t)a << 40) ^ ((uint64_t)b << 20) ^ c;
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    return (double)(x >> 11) / 9007199254740992.0;
}

/* Contexts of round `round`: the example's number in the whole batch is base + i. */
__global__ void make_contexts(double *ctx, int round, int base, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n * FEATURES)
        ctx[t] = 2 * draw(1 + round, base + t / FEATURES, t % FEATURES) - 1;
}

__global__ void act(const double *ctx, const double *policy, const double *truth, double *prob, int *arm,
                    double *reward, int round, int base, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double z[ARMS], top = -1e300, sum = 0;
    for (int a = 0; a < ARMS; ++a) {
        z[a] = 0;
        for (int k = 0; k < FEATURES; ++k)
            z[a] += ctx[i * FEATURES + k] * policy[a * FEATURES + k];
        top = fmax(top, z[a]);
    }
    for (int a = 0; a < ARMS; ++a)
        sum += exp(z[a] - top);
    double u = draw(100000 + round, base + i, 7);
    int chosen = ARMS - 1;
    for (int a = 0; a < ARMS; ++a) {
        prob[i * ARMS + a] = exp(z[a] - top) / sum;
        if (u >= 0) {
            u -= prob[i * ARMS + a];
            if (u < 0)
                chosen = a;
        }
    }
    double r = 2.0;
    for (int k = 0; k < FEATURES; ++k)
        r += ctx[i * FEATURES + k] * truth[chosen * FEATURES + k];
    arm[i] = chosen;
    reward[i] = r;
}

__global__ void policy_gradient(const double *ctx, const double *prob, const int *arm, const double *reward,
                                double baseline, double *g, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= ARMS * FEATURES)
        return;
    int a = t / FEATURES, k = t % FEATURES;
    double s = 0;
    for (int i = 0; i < n; ++i)
        s += (reward[i] - baseline) * (prob[i * ARMS + a] - (arm[i] == a)) * ctx[i * FEATURES + k];
    g[t] = s / n;
}

__global__ void ascend(double *policy, const double *g, double rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < ARMS * FEATURES)
        policy[t] -= rate * g[t];
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    double truth[ARMS * FEATURES];
    for (int i = 0; i < ARMS * FEATURES; ++i)
        truth[i] = 1.2 * draw(0, 3, i) - 0.6;

    double *d_truth, *d_policy, *d_grad, *d_ctx, *d_prob, *d_reward;
    int *d_arm;
    TRY(cudaMalloc((void **)&d_truth, sizeof truth));
    TRY(cudaMalloc((void **)&d_policy, sizeof truth));
    TRY(cudaMalloc((void **)&d_grad, sizeof truth));
    TRY(cudaMalloc((void **)&d_ctx, BATCH * FEATURES * sizeof(double)));
    TRY(cudaMalloc((void **)&d_prob, BATCH * ARMS * sizeof(double)));
    TRY(cudaMalloc((void **)&d_reward, BATCH * sizeof(double)));
    TRY(cudaMalloc((void **)&d_arm, BATCH * sizeof(int)));
    TRY(cudaMemcpy(d_truth, truth, sizeof truth, cudaMemcpyHostToDevice));
    TRY(cudaMemset(d_policy, 0, sizeof truth));
    DDP_PARAMETER(d_policy, ARMS * FEATURES, DDP_FLOAT64);
    DDP_GRADIENT(d_grad, ARMS * FEATURES, DDP_FLOAT64);

    double baseline = 0;
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, base = (int)first;

        make_contexts<<<(n * FEATURES + 127) / 128, 128>>>(d_ctx, step, base, n);
        act<<<(n + 31) / 32, 32>>>(d_ctx, d_policy, d_truth, d_prob, d_arm, d_reward, step, base, n);

        double reward[BATCH], mean = 0;
        TRY(cudaMemcpy(reward, d_reward, n * sizeof(double), cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; ++i)
            mean += reward[i] / n;
        if (step == 0)
            baseline = mean;

        policy_gradient<<<(ARMS * FEATURES + 63) / 64, 64>>>(d_ctx, d_prob, d_arm, d_reward, baseline, d_grad, n);
        DDP_STEP(0);
        ascend<<<(ARMS * FEATURES + 63) / 64, 64>>>(d_policy, d_grad, 0.8);
        baseline += 0.3 * (mean - baseline);

        if (step % 10 == 0 || step == steps - 1) {
            double loss = -mean;
            DDP_MEAN_AS("loss", &loss);
            if (DDP_RANK() == 0)
                printf("round %d: loss (negative reward) %.4f\n", step, loss);
        }
    }

    if (argc > 1 && DDP_RANK() == 0) {
        double policy[ARMS * FEATURES];
        TRY(cudaMemcpy(policy, d_policy, sizeof policy, cudaMemcpyDeviceToHost));
        FILE *f = fopen(argv[1], "wb");
        fwrite(policy, sizeof(double), ARMS * FEATURES, f);
        fclose(f);
    }
    TRY(cudaDeviceSynchronize());
    return 0;
}
