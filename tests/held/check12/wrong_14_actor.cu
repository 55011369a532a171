// One-step control: a quadratic critic Q(s, a) fits the reward, a linear actor climbs the critic.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <vector>
#include "ddprun.h"

#define S 6          /* state */
#define A 2          /* action */
#define NF (S + A + 1)
#define NQ (NF * NF) /* weights of the quadratic form */
#define BATCH 64
#define STEPS 60

static inline dim3 grid(int n) { return dim3((n + 63) / 64); }

struct Actor {
    float *W, *b;   /* A x S, A */
    float *gW, *gb;
};
struct Critic {
    float *Q, *gQ;
};

__device__ float noise(unsigned i, unsigned k)
{
    unsigned h = i * 747796405u + k * 2891336453u + 1u;
    h = ((h >> ((h >> 28) + 4)) ^ h) * 277803737u;
    h = (h >> 22) ^ h;
    return (h >> 8) * (2.0f / 16777216.0f) - 1.0f;
}

__device__ float true_reward(const float *s, const float *a)
{
    float e0 = a[0] - 0.8f * s[0] + 0.5f * s[1], e1 = a[1] - 0.6f * s[2] - 0.3f;
    return 1.0f - e0 * e0 - 0.7f * e1 * e1;
}

/* feature vector (s, a, 1) with an exploring action, and the reward */
__global__ void interact(Actor actor, float *feat, float *reward, unsigned id0, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float *f = feat + i * NF;
    for (int k = 0; k < S; ++k) f[k] = noise(id0 + i, k);
    for (int a = 0; a < A; ++a) {
        f[S + a] = actor.b[a] + 0.6f * noise(id0 + i, 100 + a);
        for (int k = 0; k < S; ++k) f[S + a] += actor.W[a * S + k] * f[k];
    }
    f[S + A] = 1;
    reward[i] = true_reward(f, f + S);
}

__global__ void td_error(Critic c, const float *feat, const float *reward, float *err, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *f = feat + i * NF;
    float q = 0;
    for (int u = 0; u < NF; ++u)
        for (int v = 0; v < NF; ++v) q += c.Q[u * NF + v] * f[u] * f[v];
    err[i] = q - reward[i];
}

__global__ void critic_gradient(Critic c, const float *feat, const float *err, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= NQ) return;
    float s = 0;
    for (int i = 0; i < n; ++i) s += err[i] * feat[i * NF + t / NF] * feat[i * NF + t % NF];
    c.gQ[t] = s / n;
}

/* dQ/da at the actor's own action */
__global__ void action_gradient(Actor actor, Critic c, const float *feat, float *da, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float f[NF];
    for (int k = 0; k < S; ++k) f[k] = feat[i * NF + k];
    for (int a = 0; a < A; ++a) {
        f[S + a] = actor.b[a];
        for (int k = 0; k < S; ++k) f[S + a] += actor.W[a * S + k] * f[k];
    }
    f[S + A] = 1;
    for (int a = 0; a < A; ++a) {
        float s = 0;
        for (int v = 0; v < NF; ++v) s += (c.Q[(S + a) * NF + v] + c.Q[v * NF + S + a]) * f[v];
        da[i * A + a] = -s / n;
    }
}

__global__ void actor_gradient(Actor actor, const float *feat, const float *da, int n)
{
    int t = threadIdx.x;
    if (t >= A * (S + 1)) return;
    int a = t / (S + 1), k = t % (S + 1);
    float s = 0;
    for (int i = 0; i < n; ++i) s += da[i * A + a] * (k < S ? feat[i * NF + k] : 1.0f);
    if (k < S) actor.gW[a * S + k] = s;
    else actor.gb[a] = s;
}

__global__ void sgd(float *w, const float *g, int n, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) w[t] -= rate * g[t];
}

static float *zeros(int n)
{
    float *p;
    cudaMalloc(&p, n * sizeof(float));
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

int main(int argc, char **argv)
{
    Actor actor = {zeros(A * S), zeros(A), zeros(A * S), zeros(A)};
    Critic critic = {zeros(NQ), zeros(NQ)};
    float *feat = zeros(BATCH * NF), *reward = zeros(BATCH), *err = zeros(BATCH), *da = zeros(BATCH * A);

    DDP_PARAMETER(critic.Q, NQ, DDP_FLOAT32);
    DDP_PARAMETER(actor.W, A * S, DDP_FLOAT32);
    DDP_PARAMETER(actor.b, A, DDP_FLOAT32);
    DDP_GRADIENT(critic.gQ, NQ, DDP_FLOAT32);
    DDP_GRADIENT(actor.gW, A * S, DDP_FLOAT32);
    DDP_GRADIENT_GROUP(1);
    DDP_GRADIENT(actor.gb, A, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        interact<<<grid(n), 64>>>(actor, feat, reward, (unsigned)(step * BATCH + first), n);
        for (int pass = 0; pass < 2; ++pass) {
            td_error<<<grid(n), 64>>>(critic, feat, reward, err, n);
            critic_gradient<<<grid(NQ), 64>>>(critic, feat, err, n);
            DDP_STEP_GROUP(0, 0);
            sgd<<<grid(NQ), 64>>>(critic.Q, critic.gQ, NQ, 0.15f);
        }
        action_gradient<<<grid(n), 64>>>(actor, critic, feat, da, n);
        actor_gradient<<<1, 32>>>(actor, feat, da, n);
        DDP_STEP_GROUP(1, 0);
        sgd<<<grid(A * S), 64>>>(actor.W, actor.gW, A * S, 0.05f);
        sgd<<<grid(A), 64>>>(actor.b, actor.gb, A, 0.05f);
        if (step % 10 == 0 || step == STEPS - 1) {
            std::vector<float> e(n), r(n);
            cudaMemcpy(e.data(), err, n * sizeof(float), cudaMemcpyDeviceToHost);
            cudaMemcpy(r.data(), reward, n * sizeof(float), cudaMemcpyDeviceToHost);
            float loss = 0, mean = 0;
            for (int i = 0; i < n; ++i) { loss += e[i] * e[i] / n; mean += r[i] / n; }
            DDP_MEAN(&loss);
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0) std::printf("step %d critic loss %.4f reward %.4f\n", step, loss, mean);
        }
    }
    std::vector<float> w(NQ + A * S + A);
    cudaMemcpy(w.data(), critic.Q, NQ * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(&w[NQ], actor.W, A * S * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(&w[NQ + A * S], actor.b, A * sizeof(float), cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(w.data(), sizeof(float), w.size(), f);
        std::fclose(f);
    }
    return 0;
}
