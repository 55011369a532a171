// REINFORCE on a contextual bandit: linear softmax policy, actions drawn on the device, running reward baseline on the
// host. Truth: gradients (truth_step over d_theta_grad); the baseline goes on with each batch, as in the one process.
// Batches: 64 (batches of 64 pulls).
#include "truth.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>

#define CONTEXTS 4
#define ARMS     6
#define NPULL    64
#define NSTEP    64

__constant__ float c_payoff[CONTEXTS * ARMS];

__host__ __device__ inline unsigned
mix(unsigned a)
{
    a ^= a >> 16;
    a *= 0x7feb352du;
    a ^= a >> 15;
    a *= 0x846ca68bu;
    a ^= a >> 16;
    return a;
}
__device__ inline float
unit(unsigned step, unsigned i, unsigned which)
{
    return (mix(step * 7919u + mix(i * 3u + which)) >> 8) * (1.0f / 16777216.0f);
}

__global__ void
pull(const float *theta, unsigned step, int *ctx, int *act, float *prob, float *reward)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int c = (int)(unit(step, i, 0) * CONTEXTS);
    float p[ARMS], mx = -1e30f, s = 0;
    for (int a = 0; a < ARMS; a++)
        mx = fmaxf(mx, theta[c * ARMS + a]);
    for (int a = 0; a < ARMS; a++) {
        p[a] = expf(theta[c * ARMS + a] - mx);
        s += p[a];
    }
    float u = unit(step, i, 1), acc = 0;
    int choice = ARMS - 1;
    for (int a = 0; a < ARMS; a++) {
        p[a] /= s;
        prob[i * ARMS + a] = p[a];
        acc += p[a];
        if (u < acc && choice == ARMS - 1 && a < ARMS - 1) {
            choice = a;
            u = 2;
        }
    }
    ctx[i] = c;
    act[i] = choice;
    reward[i] = c_payoff[c * ARMS + choice] + 0.2f * (unit(step, i, 2) - 0.5f);
}

__global__ void
policy_grad(const int *ctx, const int *act, const float *prob, const float *reward, float baseline, float *grad)
{
    int c = blockIdx.x, a = threadIdx.x;
    float g = 0;
    for (int i = 0; i < NPULL; i++)
        if (ctx[i] == c)
            g -= (reward[i] - baseline) * ((act[i] == a ? 1.0f : 0.0f) - prob[i * ARMS + a]);
    grad[c * ARMS + a] = g / NPULL;
}

__global__ void
ascend(float *theta, const float *grad, float lr)
{
    theta[threadIdx.x] -= lr * grad[threadIdx.x];
}

int
main(void)
{
    float payoff[CONTEXTS * ARMS], best = 0;
    for (int c = 0; c < CONTEXTS; c++) {
        float m = 0;
        for (int a = 0; a < ARMS; a++) {
            payoff[c * ARMS + a] = (mix(1000 + c * ARMS + a) & 1023) / 1023.0f;
            m = fmaxf(m, payoff[c * ARMS + a]);
        }
        best += m / CONTEXTS;
    }
    cudaMemcpyToSymbol(c_payoff, payoff, sizeof(payoff));

    float *d_theta, *d_theta_grad, *d_prob, *d_reward, *h_reward;
    int *d_ctx, *d_act;
    cudaMalloc(&d_theta, sizeof(payoff));
    cudaMalloc(&d_theta_grad, sizeof(payoff));
    cudaMalloc(&d_prob, NPULL * ARMS * sizeof(float));
    cudaMalloc(&d_reward, NPULL * sizeof(float));
    cudaMalloc(&d_ctx, NPULL * sizeof(int));
    cudaMalloc(&d_act, NPULL * sizeof(int));
    cudaHostAlloc(&h_reward, NPULL * sizeof(float), cudaHostAllocDefault);
    cudaMemset(d_theta, 0, sizeof(payoff));

    float baseline = 0;
    for (unsigned step = 0; step < NSTEP; step++) {
        pull<<<2, NPULL / 2>>>(d_theta, step, d_ctx, d_act, d_prob, d_reward);
        policy_grad<<<CONTEXTS, ARMS>>>(d_ctx, d_act, d_prob, d_reward, baseline, d_theta_grad);
        if (truth_step({{d_theta_grad, CONTEXTS * ARMS}}))
            ascend<<<1, CONTEXTS * ARMS>>>(d_theta, d_theta_grad, 6.0f);
        cudaMemcpy(h_reward, d_reward, NPULL * sizeof(float), cudaMemcpyDeviceToHost);
        float r = 0;
        for (int i = 0; i < NPULL; i++)
            r += h_reward[i];
        r /= NPULL;
        baseline = step == 0 ? r : 0.8f * baseline + 0.2f * r;
        if (step % 8 == 0 || step == NSTEP - 1)
            printf("step %2u  mean reward %.4f  regret %.4f  baseline %.4f\n", step, r, best - r, baseline);
    }
    // greedy policy
    float theta[CONTEXTS * ARMS], got = 0;
    cudaMemcpy(theta, d_theta, sizeof(theta), cudaMemcpyDeviceToHost);
    for (int c = 0; c < CONTEXTS; c++) {
        int a = 0;
        for (int k = 1; k < ARMS; k++)
            if (theta[c * ARMS + k] > theta[c * ARMS + a])
                a = k;
        printf("context %d: arm %d pays %.4f\n", c, a, payoff[c * ARMS + a]);
        got += payoff[c * ARMS + a] / CONTEXTS;
    }
    printf("greedy %.4f of best %.4f\n", got, best);
    if (cudaGetLastError() != cudaSuccess)
        return EXIT_FAILURE;
    truth_dump({{d_theta, CONTEXTS * ARMS}});
    cudaFreeHost(h_reward);
    cudaFree(d_theta);
    cudaFree(d_theta_grad);
    cudaFree(d_prob);
    cudaFree(d_reward);
    cudaFree(d_ctx);
    cudaFree(d_act);
    return EXIT_SUCCESS;
}
