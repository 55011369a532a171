/* Policy gradient on a fixed table of rewards: REINFORCE with a running baseline for each state. */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#define CHECK(call)                                                                               \
    do {                                                                                          \
        cudaError_t error_ = (call);                                                              \
        if (error_ != cudaSuccess) {                                                              \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));       \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* A number in [0, 1) that depends on its two arguments only. */
static __host__ __device__ inline float
uniform(unsigned seed, unsigned i)
{
    unsigned x = seed * 0x9e3779b9u + i * 0x85ebca6bu + 0x7f4a7c15u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (x >> 8) * (1.0f / 16777216.0f);
}

static float *
zeros(size_t n)
{
    float *p;
    CHECK(cudaMalloc((void **)&p, n * sizeof(float)));
    CHECK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

template <typename T> static T *
upload(const std::vector<T> &values)
{
    T *p;
    CHECK(cudaMalloc((void **)&p, values.size() * sizeof(T)));
    CHECK(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

static inline int
blocks(size_t n)
{
    return (int)((n + 63) / 64);
}

enum { STATES = 6, ACTIONS = 5, BATCH = 48, STEPS = 80 };
enum { TABLE = STATES * ACTIONS };

/* Episode first + i of this step: its state, an action of the policy, and the reward in the table. */
__global__ void
play(int *states, int *actions, float *rewards, const float *theta, const float *table, unsigned step, int first, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int s = (int)(STATES * uniform(1000 + step, first + i));
    float sum = 0.0f, at = 0.0f, dice = uniform(5000 + step, first + i);
    for (int a = 0; a < ACTIONS; ++a)
        sum += expf(theta[s * ACTIONS + a]);
    int action = ACTIONS - 1;
    for (int a = ACTIONS - 2; a >= 0; --a) {
        at = 0.0f;
        for (int b = 0; b <= a; ++b)
            at += expf(theta[s * ACTIONS + b]) / sum;
        action = dice < at ? a : action;
    }
    states[i] = s;
    actions[i] = action;
    rewards[i] = table[s * ACTIONS + action];
}

__global__ void
policy_gradient(float *dtheta, const float *theta, const int *states, const int *actions, const float *rewards, const float *baseline, int n)
{
    int j = threadIdx.x, s = j / ACTIONS;
    if (j >= TABLE)
        return;
    float sum = 0.0f, total = 0.0f;
    for (int a = 0; a < ACTIONS; ++a)
        sum += expf(theta[s * ACTIONS + a]);
    float p = expf(theta[j]) / sum;
    for (int i = 0; i < n; ++i) {
        if (states[i] == s)
            total -= (rewards[i] - baseline[s]) * ((actions[i] == j % ACTIONS) - p);
    }
    dtheta[j] = total / n;
}

/* Moves each state's baseline towards the mean of its rewards. */
__global__ void
update_baseline(float *baseline, const int *states, const float *rewards, int n)
{
    int s = threadIdx.x, visits = 0;
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) {
        if (states[i] == s) {
            sum += rewards[i];
            ++visits;
        }
    }
    if (visits > 0)
        baseline[s] += 0.1f * (sum / visits - baseline[s]);
}

__global__ void
descend(float *theta, const float *dtheta, float rate)
{
    if (threadIdx.x < TABLE)
        theta[threadIdx.x] -= rate * dtheta[threadIdx.x];
}

int
main()
{
    std::vector<float> rewards_table(TABLE);
    for (int i = 0; i < TABLE; ++i)
        rewards_table[i] = 1.0f + uniform(1, i);
    float *table = upload(rewards_table), *theta = zeros(TABLE), *dtheta = zeros(TABLE), *baseline = zeros(STATES);
    float *rewards = zeros(BATCH);
    int *states = upload(std::vector<int>(BATCH)), *actions = upload(std::vector<int>(BATCH));
    DDP_PARAMETER(theta, TABLE, DDP_FLOAT32);
    DDP_GRADIENT(dtheta, TABLE, DDP_FLOAT32);
    DDP_BUFFER(baseline, STATES, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        play<<<blocks(n), 64>>>(states, actions, rewards, theta, table, step, (int)first, n);
        policy_gradient<<<1, 64>>>(dtheta, theta, states, actions, rewards, baseline, n);
        update_baseline<<<1, STATES>>>(baseline, states, rewards, n);
        DDP_STEP(0);
        descend<<<1, 64>>>(theta, dtheta, 2.0f);
        if (step % 20 == 19) {
            std::vector<float> host(count);
            CHECK(cudaMemcpy(host.data(), rewards, count * sizeof(float), cudaMemcpyDeviceToHost));
            float mean = 0.0f;
            for (float r : host)
                mean += r / count;
            DDP_MEAN_AS("reward", &mean);
            if (DDP_RANK() == 0)
                printf("step %d reward %.4f loss %.4f\n", step + 1, mean, 2.0f - mean);
        }
    }
    return 0;
}
