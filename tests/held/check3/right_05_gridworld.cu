/* Actor and critic in a grid of 4 x 4 cells, from a fixed table of moves. Two optimizers; gradients by atomicAdd. */
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

enum { SIDE = 4, STATES = SIDE * SIDE, ACTIONS = 4, TABLE = STATES * ACTIONS, BATCH = 64, STEPS = 80 };
static const float DISCOUNT = 0.9f;

/* Move first + i of this step: a random cell, and an action of the policy. */
__global__ void
act(int *cells, const float *theta, unsigned step, int first, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int s = (int)(STATES * uniform(2000 + step, first + i)), a = 0;
    float sum = 0.0f, dice = uniform(9000 + step, first + i);
    for (int b = 0; b < ACTIONS; ++b)
        sum += expf(theta[s * ACTIONS + b]);
    float at = expf(theta[s * ACTIONS]) / sum;
    while (a < ACTIONS - 1 && dice >= at) {
        ++a;
        at += expf(theta[s * ACTIONS + a]) / sum;
    }
    cells[i] = s * ACTIONS + a;
}

__global__ void
surprise(float *delta, const float *value, const int *cells, const int *next, const float *rewards, float discount, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        delta[i] = rewards[cells[i]] + discount * value[next[cells[i]]] - value[cells[i] / ACTIONS];
}

__global__ void
critic_gradient(float *dvalue, const float *delta, const int *cells, float scale, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&dvalue[cells[i] / ACTIONS], -delta[i] * scale);
}

__global__ void
actor_gradient(float *dtheta, const float *theta, const float *delta, const int *cells, float scale, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int s = cells[i] / ACTIONS;
    float sum = 0.0f;
    for (int a = 0; a < ACTIONS; ++a)
        sum += expf(theta[s * ACTIONS + a]);
    for (int a = 0; a < ACTIONS; ++a) {
        float p = expf(theta[s * ACTIONS + a]) / sum;
        atomicAdd(&dtheta[s * ACTIONS + a], delta[i] * (p - (a == cells[i] % ACTIONS)) * scale);
    }
}

__global__ void
descend(float *w, const float *dw, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= rate * dw[i];
}

int
main()
{
    /* Up, down, left, right; the cell in the last corner gives a reward and leads back to the first. */
    std::vector<int> moves(TABLE);
    std::vector<float> gains(TABLE);
    for (int i = 0; i < TABLE; ++i) {
        int s = i / ACTIONS, row = s / SIDE, column = s % SIDE;
        switch (i % ACTIONS) {
        case 0: row = row > 0 ? row - 1 : 0; break;
        case 1: row = row < SIDE - 1 ? row + 1 : row; break;
        case 2: column = column > 0 ? column - 1 : 0; break;
        default: column = column < SIDE - 1 ? column + 1 : column;
        }
        moves[i] = s == STATES - 1 ? 0 : row * SIDE + column;
        gains[i] = s == STATES - 1 ? 1.0f : -0.02f * uniform(1, i);
    }
    int *next = upload(moves), *cells = upload(std::vector<int>(BATCH));
    float *rewards = upload(gains), *value = zeros(STATES), *dvalue = zeros(STATES);
    float *theta = zeros(TABLE), *dtheta = zeros(TABLE), *delta = zeros(BATCH);
    DDP_GRADIENT_GROUP(0);
    DDP_PARAMETER(value, STATES, DDP_FLOAT32);
    DDP_GRADIENT(dvalue, STATES, DDP_FLOAT32);
    DDP_GRADIENT_GROUP(1);
    DDP_PARAMETER(theta, TABLE, DDP_FLOAT32);
    DDP_GRADIENT(dtheta, TABLE, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        act<<<blocks(n), 64>>>(cells, theta, step, (int)first, n);
        surprise<<<blocks(n), 64>>>(delta, value, cells, next, rewards, DISCOUNT, n);
        CHECK(cudaMemsetAsync(dvalue, 0, STATES * sizeof(float), 0));
        critic_gradient<<<blocks(n), 64>>>(dvalue, delta, cells, 1.0f / n, n);
        DDP_STEP_GROUP(0, 0);
        descend<<<blocks(STATES), 64>>>(value, dvalue, 4.0f, STATES);

        /* The actor learns from the critic after its update. */
        surprise<<<blocks(n), 64>>>(delta, value, cells, next, rewards, DISCOUNT, n);
        CHECK(cudaMemsetAsync(dtheta, 0, TABLE * sizeof(float), 0));
        actor_gradient<<<blocks(n), 64>>>(dtheta, theta, delta, cells, 1.0f / n, n);
        DDP_STEP_GROUP(1, 0);
        descend<<<blocks(TABLE), 64>>>(theta, dtheta, 8.0f, TABLE);
        if (step % 20 == 19) {
            std::vector<float> host(count);
            CHECK(cudaMemcpy(host.data(), delta, count * sizeof(float), cudaMemcpyDeviceToHost));
            float loss = 0.0f;
            for (float d : host)
                loss += d * d / count;
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0)
                printf("step %d loss %.5f\n", step + 1, loss);
        }
    }
    return 0;
}
