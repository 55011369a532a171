// A contextual bandit learns a softmax policy by REINFORCE. Every round a batch of contexts arrives, the policy pulls an
// arm for each, and the rewards, less a running baseline, weigh the log-probabilities of the pulled arms.
#include <cuda_runtime.h>
#include <ddprun.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

constexpr int ARMS = 4, DIMS = 6, ROUND = 64, ROUNDS = 20;
constexpr int WEIGHTS = ARMS * DIMS;

static void require(bool good, const char *what)
{
    if (!good) {
        std::fprintf(stderr, "bandit: %s\n", what);
        std::abort();
    }
}

__host__ __device__ inline float hashed(unsigned a, unsigned b)
{
    unsigned h = a * 0x9e3779b1u ^ (b + 0x7f4a7c15u) * 0x85ebca6bu;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    h = (h ^ h >> 12) * 0x297a2d39u;
    return ((h ^ h >> 15) >> 8) / 16777216.0f;
}

// An arm pays well if the context points into its direction.
__device__ float payoff(const float *context, int arm)
{
    return 3.0f + 2.0f * context[arm] - context[(arm + 1) % DIMS];
}

struct Episode { // one context of the round
    float context[DIMS];
    float p[ARMS];
    int arm;
    float reward;
};

// `id` of an episode is its number in the whole run, whichever process plays it.
__global__ void play(Episode *episodes, const float *policy, unsigned first_id, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    Episode &e = episodes[i];
    unsigned id = first_id + i;
    float sum = 0.0f;
    for (int d = 0; d < DIMS; ++d)
        e.context[d] = 2.0f * hashed(id, d) - 1.0f;
    for (int a = 0; a < ARMS; ++a) {
        float z = 0.0f;
        for (int d = 0; d < DIMS; ++d)
            z += policy[a * DIMS + d] * e.context[d];
        e.p[a] = expf(z);
        sum += e.p[a];
    }
    float u = hashed(id, 1000) * sum;
    e.arm = ARMS - 1;
    for (int a = 0; a < ARMS; ++a) {
        if (u >= 0.0f && u < e.p[a])
            e.arm = a;
        u -= e.p[a];
        e.p[a] /= sum;
    }
    e.reward = payoff(e.context, e.arm);
}

__global__ void policy_gradient(float *gradient, const Episode *episodes, float baseline, int n)
{
    int a = threadIdx.x / DIMS, d = threadIdx.x % DIMS;
    float s = 0.0f;
    for (int i = 0; i < n; ++i) {
        const Episode &e = episodes[i];
        s += (e.reward - baseline) * (e.p[a] - (e.arm == a)) * e.context[d];
    }
    gradient[threadIdx.x] = s / n;
}

__global__ void move(float *policy, const float *gradient, float rate)
{
    policy[threadIdx.x] -= rate * gradient[threadIdx.x];
}

struct Baseline {
    float value = 0.0f;
    bool known = false;
    void see(const std::vector<Episode> &episodes)
    {
        float mean = 0.0f;
        for (const Episode &e : episodes)
            mean += e.reward;
        mean /= float(episodes.size());
        value = known ? 0.7f * value + 0.3f * mean : mean;
        known = true;
    }
};

int main()
{
    float *policy, *gradient;
    Episode *episodes;
    require(!cudaMalloc((void **)&policy, WEIGHTS * sizeof(float)), "no memory for the policy");
    require(!cudaMalloc((void **)&gradient, WEIGHTS * sizeof(float)), "no memory for the gradient");
    require(!cudaMalloc((void **)&episodes, ROUND * sizeof(Episode)), "no memory for episodes");
    require(!cudaMemset(policy, 0, WEIGHTS * sizeof(float)), "memset");
    DDP_PARAMETER(policy, WEIGHTS, DDP_TYPE_OF(policy));
    DDP_GRADIENT(gradient, WEIGHTS, DDP_TYPE_OF(gradient));

    size_t first, count;
    DDP_SHARD(ROUND, &first, &count);
    std::vector<Episode> seen(count);
    Baseline baseline;
    for (unsigned round = 0; round < ROUNDS; ++round) {
        play<<<2, ROUND / 2>>>(episodes, policy, round * ROUND + unsigned(first), int(count));
        require(!cudaMemcpy(seen.data(), episodes, count * sizeof(Episode), cudaMemcpyDeviceToHost), "copy");
        baseline.see(seen);
        policy_gradient<<<1, WEIGHTS>>>(gradient, episodes, baseline.value, int(count));
        DDP_STEP(nullptr);
        move<<<1, WEIGHTS>>>(policy, gradient, 0.6f);

        float regret = 0.0f; // against the best possible pay, 6
        for (const Episode &e : seen)
            regret += (6.0f - e.reward) / float(count);
        DDP_MEAN_AS("regret", &regret);
        if (DDP_RANK() == 0)
            std::printf("round %2u regret %.4f\n", round, regret);
    }
    require(!cudaDeviceSynchronize(), "the device failed");
    return 0;
}
