// Policy gradient (REINFORCE) with a running baseline on a contextual problem with a linear-softmax policy.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

struct Environment {
    static const int State = 10, Actions = 6;
    unsigned long long key = 0xC0FFEE;
    __host__ __device__ static float noise(unsigned a, unsigned b, unsigned c)
    {
        unsigned h = a * 2654435761u + b * 40503u + c * 2246822519u + 374761393u;
        h = (h ^ (h >> 15)) * 2246822519u;
        h = (h ^ (h >> 13)) * 3266489917u;
        h ^= h >> 16;
        return (h >> 8) / 16777216.0f;
    }
    std::vector<float> target;
    Environment() : target(State * Actions)
    {
        for (int i = 0; i < State * Actions; ++i) target[i] = 2 * noise(1, i, 7) - 1;
    }
    void observe(int episode, int lane, float *s) const
    {
        for (int j = 0; j < State; ++j) s[j] = 2 * noise(100 + episode, lane, j) - 1;
    }
    float reward(const float *s, int action) const
    {
        float best = 0;
        for (int j = 0; j < State; ++j) best += s[j] * target[j * Actions + action];
        return 3.0f + 0.5f * s[0] + 1.5f * std::tanh(best) - 0.2f * action;
    }
};

__global__ void act(const float *state, const float *w, const float *dice, float *prob, int *action, int n)
{
    const int S = Environment::State, A = Environment::Actions;
    int i = threadIdx.x;
    if (i >= n) return;
    float z[A], top = -1e30f, sum = 0, run = 0;
    for (int a = 0; a < A; ++a) {
        z[a] = w[S * A + a];
        for (int j = 0; j < S; ++j) z[a] += state[i * S + j] * w[j * A + a];
        top = fmaxf(top, z[a]);
    }
    for (int a = 0; a < A; ++a) sum += expf(z[a] - top);
    int chosen = A - 1;
    for (int a = 0; a < A; ++a) {
        prob[i * A + a] = expf(z[a] - top) / sum;
        run += prob[i * A + a];
        if (dice[i] < run && chosen == A - 1) { chosen = a; break; }
    }
    for (int a = 0; a < A; ++a) prob[i * A + a] = expf(z[a] - top) / sum;
    action[i] = chosen;
}

__global__ void policy_gradient(const float *state, const float *prob, const int *action, const float *reward, float baseline,
                                float *grad, int n)
{
    const int S = Environment::State, A = Environment::Actions;
    int j = blockIdx.x, a = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n; ++i) {
        float x = j < S ? state[i * S + j] : 1.0f;
        s -= (reward[i] - baseline) * ((action[i] == a ? 1.0f : 0.0f) - prob[i * A + a]) * x;
    }
    grad[j * A + a] = s / n;
}

__global__ void ascend(float *w, float *m, const float *grad, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        m[i] = 0.7f * m[i] + grad[i];
        w[i] -= rate * m[i];
    }
}

int main(int argc, char **argv)
{
    const int S = Environment::State, A = Environment::Actions, P = (S + 1) * A, LANES = 64;
    const int iterations = argc > 2 ? std::atoi(argv[2]) : 60;
    Environment env;
    float *w, *m, *g, *state, *dice, *prob, *reward;
    int *action;
    cudaMalloc(&w, P * sizeof(float));
    cudaMalloc(&m, P * sizeof(float));
    cudaMalloc(&g, P * sizeof(float));
    cudaMalloc(&state, LANES * S * sizeof(float));
    cudaMalloc(&dice, LANES * sizeof(float));
    cudaMalloc(&prob, LANES * A * sizeof(float));
    cudaMalloc(&reward, LANES * sizeof(float));
    cudaMalloc(&action, LANES * sizeof(int));
    cudaMemset(w, 0, P * sizeof(float));
    cudaMemset(m, 0, P * sizeof(float));
    DDP_PARAMETER(w, P, DDP_FLOAT32);
    DDP_STATE(m, P, DDP_FLOAT32);
    DDP_GRADIENT(g, P, DDP_FLOAT32);

    float baseline = 0;
    std::vector<float> hs(LANES * S), hd(LANES), hr(LANES);
    std::vector<int> ha(LANES);
    for (int it = 0; it < iterations; ++it) {
        size_t first, count;
        DDP_SHARD(LANES, &first, &count);
        for (size_t i = 0; i < count; ++i) {
            env.observe(it, (int)(first + i), &hs[i * S]);
            hd[i] = Environment::noise(5000 + it, (unsigned)(first + i), 99);
        }
        cudaMemcpy(state, hs.data(), count * S * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(dice, hd.data(), count * sizeof(float), cudaMemcpyHostToDevice);
        act<<<1, LANES>>>(state, w, dice, prob, action, (int)count);
        cudaMemcpy(ha.data(), action, count * sizeof(int), cudaMemcpyDeviceToHost);
        float gained = 0;
        for (size_t i = 0; i < count; ++i) {
            hr[i] = env.reward(&hs[i * S], ha[i]);
            gained += hr[i] / count;
        }
        cudaMemcpy(reward, hr.data(), count * sizeof(float), cudaMemcpyHostToDevice);
        policy_gradient<<<S + 1, A>>>(state, prob, action, reward, baseline, g, (int)count);
        DDP_STEP(0);
        ascend<<<(P + 31) / 32, 32>>>(w, m, g, 0.3f, P);
        baseline = it == 0 ? gained : 0.6f * baseline + 0.4f * gained;
        if (it % 10 == 9 || it == 0) {
            DDP_MEAN_AS("reward", &gained);
            std::printf("iteration %d mean reward %.4f\n", it + 1, gained);
        }
    }
    std::vector<float> out(P);
    cudaMemcpy(out.data(), w, P * sizeof(float), cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(out.data(), sizeof(float), P, f);
        std::fclose(f);
    }
    return 0;
}
