// REINFORCE on a contextual bandit: softmax policy over arms, advantage over a moving average of the reward.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

constexpr int kContext = 25, kArms = 8, kBatch = 64, kParams = kContext * kArms;

static void chk(cudaError_t e)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
        std::exit(1);
    }
}

static unsigned mix(unsigned a, unsigned b)
{
    unsigned h = a * 0x9e3779b1u ^ (b + 0x7f4a7c15u) * 0x85ebca6bu;
    h ^= h >> 15; h *= 0x2c1b3c6du; h ^= h >> 12; h *= 0x297a2d39u; h ^= h >> 15;
    return h;
}
static float unit(unsigned a, unsigned b) { return (mix(a, b) >> 8) / 16777216.0f; }

__global__ void policy(const float *theta, const float *ctx, const float *u, float *prob, int *arm, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float z[kArms], top = -1e30f, sum = 0;
    for (int a = 0; a < kArms; ++a) {
        z[a] = 0;
        for (int k = 0; k < kContext; ++k) z[a] += ctx[r * kContext + k] * theta[k * kArms + a];
        top = fmaxf(top, z[a]);
    }
    for (int a = 0; a < kArms; ++a) sum += z[a] = expf(z[a] - top);
    float acc = 0;
    int pick = kArms - 1;
    for (int a = kArms - 1; a >= 0; --a) prob[r * kArms + a] = z[a] / sum;
    for (int a = 0; a < kArms; ++a) {
        acc += z[a] / sum;
        if (u[r] < acc) { pick = a; break; }
    }
    arm[r] = pick;
}

__global__ void reinforce(const float *ctx, const float *prob, const int *arm, const float *advantage, float *grad, int rows)
{
    int id = threadIdx.x;
    if (id >= kParams) return;
    int k = id / kArms, a = id % kArms;
    float s = 0;
    for (int r = 0; r < rows; ++r)
        s += advantage[r] * ((arm[r] == a) - prob[r * kArms + a]) * ctx[r * kContext + k];
    grad[id] = -s / rows;
}

__global__ void apply(float *theta, const float *grad, float lr)
{
    int id = threadIdx.x;
    if (id < kParams) theta[id] -= lr * grad[id];
}

class World {
public:
    World() : best_(kContext * kArms)
    {
        for (int i = 0; i < kContext * kArms; ++i) best_[i] = 0.7f * (2 * unit(777, i) - 1);
    }
    void context(unsigned episode, float *out) const
    {
        for (int k = 0; k < kContext; ++k) out[k] = 2 * unit(episode, k) - 1;
        out[0] = 1;
    }
    float reward(unsigned episode, const float *ctx, int arm) const
    {
        float s = 3.0f; // pay is always good, some arms are better
        for (int k = 0; k < kContext; ++k) s += ctx[k] * best_[k * kArms + arm];
        return s + 0.5f * (unit(episode, 1000 + arm) - 0.5f);
    }

private:
    std::vector<float> best_;
};

class Baseline {
public:
    float value() const { return value_; }
    void learn(const std::vector<float> &reward)
    {
        float mean = 0;
        for (float r : reward) mean += r / reward.size();
        value_ = started_ ? 0.7f * value_ + 0.3f * mean : mean;
        started_ = true;
    }

private:
    float value_ = 0;
    bool started_ = false;
};

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? std::atoi(argv[2]) : 80;
    float *theta, *grad, *ctx, *prob, *u, *adv;
    int *arm;
    chk(cudaMalloc(&theta, kParams * sizeof(float)));
    chk(cudaMalloc(&grad, kParams * sizeof(float)));
    chk(cudaMalloc(&ctx, kBatch * kContext * sizeof(float)));
    chk(cudaMalloc(&prob, kBatch * kArms * sizeof(float)));
    chk(cudaMalloc(&u, kBatch * sizeof(float)));
    chk(cudaMalloc(&adv, kBatch * sizeof(float)));
    chk(cudaMalloc(&arm, kBatch * sizeof(int)));
    chk(cudaMemset(theta, 0, kParams * sizeof(float)));
    DDP_PARAMETER(theta, kParams, DDP_FLOAT32);
    DDP_GRADIENT(grad, kParams, DDP_FLOAT32);

    World world;
    Baseline baseline;
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        std::vector<float> c(count * kContext), dice(count), reward(count), advantage(count);
        std::vector<int> chosen(count);
        for (size_t i = 0; i < count; ++i) {
            unsigned episode = (unsigned)(step * kBatch + first + i);
            world.context(episode, &c[i * kContext]);
            dice[i] = unit(episode, 500);
        }
        chk(cudaMemcpy(ctx, c.data(), c.size() * sizeof(float), cudaMemcpyHostToDevice));
        chk(cudaMemcpy(u, dice.data(), count * sizeof(float), cudaMemcpyHostToDevice));
        policy<<<1, kBatch>>>(theta, ctx, u, prob, arm, (int)count);
        chk(cudaMemcpy(chosen.data(), arm, count * sizeof(int), cudaMemcpyDeviceToHost));
        float total = 0;
        for (size_t i = 0; i < count; ++i) {
            reward[i] = world.reward((unsigned)(step * kBatch + first + i), &c[i * kContext], chosen[i]);
            advantage[i] = reward[i] - baseline.value();
            total += reward[i];
        }
        if (step == 0)
            for (size_t i = 0; i < count; ++i) advantage[i] = 0; // nothing to compare with yet
        baseline.learn(reward);
        chk(cudaMemcpy(adv, advantage.data(), count * sizeof(float), cudaMemcpyHostToDevice));
        reinforce<<<1, 256>>>(ctx, prob, arm, adv, grad, (int)count);
        DDP_STEP(0);
        apply<<<1, 256>>>(theta, grad, 1.0f);
        float regret = 5.0f - total / count;
        DDP_MEAN_AS("regret", &regret);
        if (step % 10 == 0 && DDP_RANK() == 0) std::printf("%3d: regret %.4f\n", step, regret);
    }
    std::vector<float> out(kParams);
    chk(cudaMemcpy(out.data(), theta, kParams * sizeof(float), cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(out.data(), sizeof(float), out.size(), f);
        std::fclose(f);
    }
    return 0;
}
