// REINFORCE on a contextual bandit: a two-layer policy, sampled actions, a moving baseline, an entropy bonus.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <cuda_runtime.h>

#include "ddprun.h"

#define CUDA_OK(stmt)                                                                \
    if (cudaError_t err_ = (stmt)) {                                                 \
        std::fprintf(stderr, "%s: %s\n", #stmt, cudaGetErrorString(err_));           \
        std::exit(1);                                                                \
    }

namespace bandit {

constexpr int CONTEXT = 8, HIDDEN = 20, ARMS = 5, EPISODES = 80, STEPS = 60;

__host__ __device__ inline float noise(unsigned stream, unsigned index)
{
    unsigned x = stream * 2654435761u + index * 40503u + 1u;
    x = (x ^ (x >> 16)) * 0x45d9f3bu;
    x = (x ^ (x >> 16)) * 0x45d9f3bu;
    x ^= x >> 16;
    return (x & 0xffffffu) * (1.0f / 16777216.0f);
}

struct Policy {
    float w1[CONTEXT * HIDDEN];
    float b1[HIDDEN];
    float w2[HIDDEN * ARMS];
    float b2[ARMS];
};
constexpr int POLICY_N = sizeof(Policy) / sizeof(float);

struct Rollout {
    float context[EPISODES][CONTEXT];
    float hidden[EPISODES][HIDDEN];
    float prob[EPISODES][ARMS];
    float dlogit[EPISODES][ARMS];
    float dhidden[EPISODES][HIDDEN];
    float reward[EPISODES];
    int arm[EPISODES];
};

// The environment: each arm likes one direction of the context; sum of all rewards is well above zero.
__device__ float environment(const float *context, int arm, unsigned step, unsigned episode)
{
    float r = 1.5f;
    for (int k = 0; k < CONTEXT; ++k)
        r += context[k] * cosf(1.7f * arm + 0.9f * k) * 0.9f;
    return r + 0.3f * (noise(77 + step, episode) - 0.5f);
}

__global__ void play(const Policy *p, Rollout *ro, unsigned step, int first, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned episode = first + i;
    for (int k = 0; k < CONTEXT; ++k)
        ro->context[i][k] = 2.0f * noise(1000 + step, episode * CONTEXT + k) - 1.0f;
    for (int j = 0; j < HIDDEN; ++j) {
        float s = p->b1[j];
        for (int k = 0; k < CONTEXT; ++k)
            s += ro->context[i][k] * p->w1[k * HIDDEN + j];
        ro->hidden[i][j] = tanhf(s);
    }
    float sum = 0.0f;
    for (int a = 0; a < ARMS; ++a) {
        float z = p->b2[a];
        for (int j = 0; j < HIDDEN; ++j)
            z += ro->hidden[i][j] * p->w2[j * ARMS + a];
        sum += ro->prob[i][a] = expf(z);
    }
    float u = noise(5000 + step, episode) * sum, run = 0.0f;
    int arm = -1;
    for (int a = 0; a < ARMS; ++a) {
        run += ro->prob[i][a];
        if (arm < 0 && (u < run || a == ARMS - 1))
            arm = a;
        ro->prob[i][a] /= sum;
    }
    ro->arm[i] = arm;
    ro->reward[i] = environment(ro->context[i], arm, step, episode);
}

__global__ void score(const Policy *p, Rollout *ro, float baseline, float bonus, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float advantage = ro->reward[i] - baseline, entropy = 0.0f;
    for (int a = 0; a < ARMS; ++a)
        entropy -= ro->prob[i][a] * logf(ro->prob[i][a] + 1e-8f);
    for (int a = 0; a < ARMS; ++a) {
        float pa = ro->prob[i][a];
        float d = advantage * (pa - (a == ro->arm[i] ? 1.0f : 0.0f));
        d += bonus * pa * (logf(pa + 1e-8f) + entropy);
        ro->dlogit[i][a] = d / n;
    }
    for (int j = 0; j < HIDDEN; ++j) {
        float s = 0.0f;
        for (int a = 0; a < ARMS; ++a)
            s += ro->dlogit[i][a] * p->w2[j * ARMS + a];
        ro->dhidden[i][j] = s * (1.0f - ro->hidden[i][j] * ro->hidden[i][j]);
    }
}

__global__ void gather(const Rollout *ro, Policy *g, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0.0f;
    if (t < CONTEXT * HIDDEN) {
        for (int i = 0; i < n; ++i)
            s += ro->context[i][t / HIDDEN] * ro->dhidden[i][t % HIDDEN];
        g->w1[t] = s;
    } else if ((t -= CONTEXT * HIDDEN) < HIDDEN) {
        for (int i = 0; i < n; ++i)
            s += ro->dhidden[i][t];
        g->b1[t] = s;
    } else if ((t -= HIDDEN) < HIDDEN * ARMS) {
        for (int i = 0; i < n; ++i)
            s += ro->hidden[i][t / ARMS] * ro->dlogit[i][t % ARMS];
        g->w2[t] = s;
    } else if ((t -= HIDDEN * ARMS) < ARMS) {
        for (int i = 0; i < n; ++i)
            s += ro->dlogit[i][t];
        g->b2[t] = s;
    }
}

__global__ void ascend(float *p, const float *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] -= rate * g[i];
}

class Trainer {
  public:
    Trainer()
    {
        CUDA_OK(cudaMalloc(&policy_, sizeof(Policy)));
        CUDA_OK(cudaMalloc(&grad_, sizeof(Policy)));
        CUDA_OK(cudaMalloc(&rollout_, sizeof(Rollout)));
        std::vector<float> init(POLICY_N);
        for (int i = 0; i < POLICY_N; ++i)
            init[i] = 0.6f * (noise(3, i) - 0.5f);
        CUDA_OK(cudaMemcpy(policy_, init.data(), sizeof(Policy), cudaMemcpyHostToDevice));
        CUDA_OK(cudaMemset(grad_, 0, sizeof(Policy)));
        DDP_PARAMETER(policy_, POLICY_N, DDP_FLOAT32);
        DDP_GRADIENT(grad_, POLICY_N, DDP_FLOAT32);
    }

    float iterate(unsigned step)
    {
        size_t first, count;
        DDP_SHARD(EPISODES, &first, &count);
        int n = (int)count, blocks = (n + 31) / 32;
        play<<<blocks, 32>>>(policy_, rollout_, step, (int)first, n);
        float reward = mean_reward(n);
        score<<<blocks, 32>>>(policy_, rollout_, baseline_, 0.01f, n);
        gather<<<(POLICY_N + 63) / 64, 64>>>(rollout_, grad_, n);
        baseline_ = step == 0 ? reward : 0.7f * baseline_ + 0.3f * reward;
        DDP_STEP(0);
        ascend<<<(POLICY_N + 63) / 64, 64>>>((float *)policy_, (const float *)grad_, 0.5f, POLICY_N);
        return reward;
    }

    void save(const char *path) const
    {
        std::vector<float> v(POLICY_N);
        CUDA_OK(cudaMemcpy(v.data(), policy_, sizeof(Policy), cudaMemcpyDeviceToHost));
        if (FILE *f = std::fopen(path, "wb")) {
            std::fwrite(v.data(), sizeof(float), v.size(), f);
            std::fclose(f);
        }
    }

  private:
    float mean_reward(int n) const
    {
        std::vector<float> r(n);
        CUDA_OK(cudaMemcpy(r.data(), rollout_->reward, n * sizeof(float), cudaMemcpyDeviceToHost));
        float s = 0.0f;
        for (float x : r)
            s += x;
        return s / n;
    }

    Policy *policy_, *grad_;
    Rollout *rollout_;
    float baseline_ = 0.0f;
};

} // namespace bandit

int main(int argc, char **argv)
{
    std::unique_ptr<bandit::Trainer> trainer(new bandit::Trainer);
    float recent = 0.0f;
    for (int step = 0; step < bandit::STEPS; ++step) {
        recent += trainer->iterate(step) / 10.0f;
        if (step % 10 == 9) {
            DDP_MEAN_AS("reward", &recent);
            if (DDP_RANK() == 0)
                std::printf("iterations to %2d: regret %.4f\n", step + 1, 3.2f - recent);
            recent = 0.0f;
        }
    }
    if (argc > 1 && DDP_RANK() == 0)
        trainer->save(argv[1]);
    return 0;
}
