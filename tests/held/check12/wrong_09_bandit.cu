// Contextual bandit by REINFORCE: softmax policy over actions, entropy bonus, normalised advantages.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

const int STATE = 12, ACTIONS = 5, ENVS = 64, STEPS = 60;
const int PARAMS = ACTIONS * (STATE + 1);

__device__ unsigned scramble(unsigned a)
{
    a = (a ^ 61u) ^ (a >> 16); a *= 9u; a ^= a >> 4; a *= 0x27d4eb2du; a ^= a >> 15;
    return a;
}
__device__ float unit(unsigned a) { return (scramble(a) >> 8) * (1.0f / 16777216.0f); }

// environment `env` at time `step`: a context, an action of the policy, a reward
__global__ void rollout(const float *policy, const float *truth, float *context, float *prob, int *action,
                        float *reward, int env0, int n, int step)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned key = scramble((unsigned)(step * ENVS + env0 + i) + 977u);
    float *s = context + i * STATE, *p = prob + i * ACTIONS;
    for (int k = 0; k < STATE; ++k) s[k] = 2.0f * unit(key + 31u * k) - 1.0f;
    float top = -1e30f, sum = 0;
    for (int a = 0; a < ACTIONS; ++a) {
        p[a] = policy[a * (STATE + 1) + STATE];
        for (int k = 0; k < STATE; ++k) p[a] += policy[a * (STATE + 1) + k] * s[k];
        top = fmaxf(top, p[a]);
    }
    for (int a = 0; a < ACTIONS; ++a) sum += p[a] = expf(p[a] - top);
    float u = unit(key + 7919u);
    int chosen = ACTIONS - 1;
    for (int a = 0; a < ACTIONS; ++a) p[a] /= sum;
    for (int a = 0; a < ACTIONS - 1; ++a) {
        if (u < p[a]) { chosen = a; break; }
        u -= p[a];
    }
    float r = 0;
    for (int k = 0; k < STATE; ++k) r += truth[chosen * STATE + k] * s[k];
    action[i] = chosen;
    reward[i] = r + 0.3f * (unit(key + 104729u) - 0.5f);
}

__global__ void standardise(const float *reward, float *adv, int n)
{
    __shared__ float mean, inv;
    if (threadIdx.x == 0) {
        float a = 0, b = 0;
        for (int i = 0; i < n; ++i) a += reward[i];
        a /= n;
        for (int i = 0; i < n; ++i) b += (reward[i] - a) * (reward[i] - a);
        mean = a;
        inv = 1.0f / (sqrtf(b / n) + 1e-4f);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) adv[i] = (reward[i] - mean) * inv;
}

__global__ void policy_gradient(const float *context, const float *prob, const int *action, const float *adv, float *g, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= PARAMS) return;
    int a = t / (STATE + 1), k = t % (STATE + 1);
    float s = 0;
    for (int i = 0; i < n; ++i) {
        const float *p = prob + i * ACTIONS;
        float h = 0;
        for (int b = 0; b < ACTIONS; ++b) h -= p[b] * logf(p[b] + 1e-8f);
        float d = adv[i] * (p[a] - (action[i] == a ? 1.0f : 0.0f));
        d += 0.01f * p[a] * (logf(p[a] + 1e-8f) + h);
        s += d * (k < STATE ? context[i * STATE + k] : 1.0f);
    }
    g[t] = s / n;
}

__global__ void ascend(float *w, const float *g, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < PARAMS) w[t] -= rate * g[t];
}

template <typename T> static T *on_device(size_t n)
{
    T *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) std::exit(1);
    cudaMemset(p, 0, n * sizeof(T));
    return p;
}

int main(int argc, char **argv)
{
    std::vector<float> truth(ACTIONS * STATE), w(PARAMS), r(ENVS);
    unsigned s = 4711;
    for (float &f : truth) {
        s = s * 22695477u + 1u;
        f = (s >> 16) / 32768.0f - 1.0f;
    }
    float *dtruth = on_device<float>(truth.size());
    cudaMemcpy(dtruth, truth.data(), truth.size() * 4, cudaMemcpyHostToDevice);
    float *policy = on_device<float>(PARAMS), *g = on_device<float>(PARAMS);
    float *context = on_device<float>(ENVS * STATE), *prob = on_device<float>(ENVS * ACTIONS);
    float *reward = on_device<float>(ENVS), *adv = on_device<float>(ENVS);
    int *action = on_device<int>(ENVS);
    DDP_PARAMETER(policy, PARAMS, DDP_TYPE_OF(policy));
    DDP_GRADIENT(g, PARAMS, DDP_TYPE_OF(g));

    float smooth = 0;
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(ENVS, &first, &count);
        int n = (int)count;
        rollout<<<(n + 31) / 32, 32>>>(policy, dtruth, context, prob, action, reward, (int)first, n, step);
        standardise<<<1, 64>>>(reward, adv, n);
        policy_gradient<<<(PARAMS + 31) / 32, 32>>>(context, prob, action, adv, g, n);
        DDP_STEP(0);
        ascend<<<(PARAMS + 31) / 32, 32>>>(policy, g, 0.4f);
        cudaMemcpy(r.data(), reward, n * 4, cudaMemcpyDeviceToHost);
        float mean = 0;
        for (int i = 0; i < n; ++i) mean += r[i] / n;
        DDP_MEAN_AS("reward", &mean);
        smooth = step ? 0.8f * smooth + 0.2f * mean : mean;
        if (DDP_RANK() == 0 && (step % 10 == 0 || step == STEPS - 1))
            std::printf("step %d loss %.4f (minus the mean reward)\n", step, -smooth);
    }
    cudaMemcpy(w.data(), policy, PARAMS * 4, cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(w.data(), 4, PARAMS, f);
        std::fclose(f);
    }
    return 0;
}
