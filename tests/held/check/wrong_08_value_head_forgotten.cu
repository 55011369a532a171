/* Policy with a value head that was added later. The value head predicts the
 * reward, the policy learns from reward minus value (contextual bandit). */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>
#include <ddprun.h>

#define S 8   /* state features */
#define A 4   /* actions */
#define B 32
#define N 256

static unsigned rs = 77;
static float rnd(void) { rs ^= rs << 13; rs ^= rs >> 17; rs ^= rs << 5; return (rs >> 8) / 16777216.0f; }

__global__ void rollout(const float *x, const float *wp, const float *wv, float *prob, float *value,
                        float *reward, int *action, const float *coin, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    float z = 0, v = 0, p[A];
    int best = 0, act = 0;
    for (int i = 0; i < S; i++) { v += x[r * S + i] * wv[i]; if (i < A && x[r * S + i] > x[r * S + best]) best = i; }
    for (int a = 0; a < A; a++) {
        float l = 0;
        for (int i = 0; i < S; i++) l += x[r * S + i] * wp[i * A + a];
        z += p[a] = expf(l);
    }
    float c = coin[r], acc = 0;
    for (int a = 0; a < A; a++) { prob[r * A + a] = p[a] / z; if (c >= acc) act = a; acc += p[a] / z; }
    action[r] = act;
    value[r] = v;
    reward[r] = act == best ? 1.0f : 0.0f;
}

__global__ void policy_grad(const float *x, const float *prob, const float *value, const float *reward,
                            const int *action, float *gp, int n)
{
    int i = threadIdx.x / A, a = threadIdx.x % A;
    float g = 0;
    for (int r = 0; r < n; r++)
        g += x[r * S + i] * (prob[r * A + a] - (action[r] == a)) * (reward[r] - value[r]);
    gp[threadIdx.x] = g / n;
}

__global__ void value_grad(const float *x, const float *value, const float *reward, float *gv, int n)
{
    float g = 0;
    for (int r = 0; r < n; r++) g += x[r * S + threadIdx.x] * (value[r] - reward[r]);
    gv[threadIdx.x] = g / n;
}

__global__ void descend(float *w, const float *g, float lr) { w[threadIdx.x] -= lr * g[threadIdx.x]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 160;
    float *x, *coin, *wp, *wv, *gp, *gv, *prob, *value, *reward;
    int *action;
    static float hx[N * S], hc[N], zero[S * A];
    for (int i = 0; i < N * S; i++) hx[i] = rnd();
    cudaMalloc((void **)&x, sizeof hx); cudaMalloc((void **)&coin, sizeof hc);
    cudaMalloc((void **)&wp, S * A * 4); cudaMalloc((void **)&gp, S * A * 4);
    cudaMalloc((void **)&wv, S * 4); cudaMalloc((void **)&gv, S * 4);
    cudaMalloc((void **)&prob, B * A * 4); cudaMalloc((void **)&value, B * 4);
    cudaMalloc((void **)&reward, B * 4); cudaMalloc((void **)&action, B * 4);
    cudaMemcpy(x, hx, sizeof hx, cudaMemcpyHostToDevice);
    cudaMemcpy(wp, zero, S * A * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(wv, zero, S * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(wp, S * A, DDP_FLOAT32);
    DDP_GRADIENT(gp, S * A, DDP_FLOAT32);
    float running = 0;
    for (int s = 0; s < steps; s++) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        int n = (int)count, at = s * B % N + (int)first;
        if (s * B % N == 0) { /* new coins for each epoch, alike everywhere */
            for (int i = 0; i < N; i++) hc[i] = rnd();
            cudaMemcpy(coin, hc, sizeof hc, cudaMemcpyHostToDevice);
        }
        rollout<<<1, B>>>(x + at * S, wp, wv, prob, value, reward, action, coin + at, n);
        value_grad<<<1, S>>>(x + at * S, value, reward, gv, n);
        policy_grad<<<1, S * A>>>(x + at * S, prob, value, reward, action, gp, n);
        DDP_STEP(0);
        descend<<<1, S * A>>>(wp, gp, 2.0f);
        descend<<<1, S>>>(wv, gv, 0.1f);
        float hr[B], m = 0;
        cudaMemcpy(hr, reward, n * 4, cudaMemcpyDeviceToHost);
        for (int i = 0; i < n; i++) m += (1 - hr[i]) / n;
        DDP_MEAN(&m);
        running = s ? 0.9f * running + 0.1f * m : m;
        if (s % 20 == 19 && DDP_RANK() == 0) printf("step %d loss (1 - reward) %.3f\n", s + 1, running);
    }
    return 0;
}
