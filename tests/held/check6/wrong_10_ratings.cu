// Non-negative factorisation of ratings. The update is made in place, without gradient buffers: plain SGD on the factors
// of users and items, then a projection onto the non-negative numbers.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

#define USERS 50
#define ITEMS 40
#define RANK 8
#define BATCH 100
#define RATINGS 1500

struct rating {
    int user, item;
    float stars;
};

static unsigned lcg = 17;
static unsigned bits(void) { return (lcg = lcg * 1664525u + 1013904223u) >> 10; }
static float unit(void) { return (float)(bits() & 0xfffff) / 0x100000; }

static void stop_if(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
        exit(1);
    }
}

__global__ void errors(const struct rating *batch, const float *u, const float *v, float *e, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float s = 0.f;
    for (int k = 0; k < RANK; ++k)
        s += u[batch[i].user * RANK + k] * v[batch[i].item * RANK + k];
    e[i] = s - batch[i].stars;
}

__global__ void update_users(const struct rating *batch, const float *e, float *u, const float *v, float rate, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= USERS * RANK)
        return;
    float g = 0.f;
    for (int i = 0; i < n; ++i)
        if (batch[i].user == t / RANK)
            g += e[i] * v[batch[i].item * RANK + t % RANK];
    u[t] -= rate * g / n;
}

__global__ void update_items(const struct rating *batch, const float *e, const float *u, float *v, float rate, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= ITEMS * RANK)
        return;
    float g = 0.f;
    for (int i = 0; i < n; ++i)
        if (batch[i].item == t / RANK)
            g += e[i] * u[batch[i].user * RANK + t % RANK];
    v[t] -= rate * g / n;
}

__global__ void project(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = fmaxf(x[i], 0.f);
}

class Factors {
  public:
    float *users, *items;

    Factors()
    {
        std::vector<float> h((USERS + ITEMS) * RANK);
        for (size_t i = 0; i < h.size(); ++i)
            h[i] = 0.5f * unit();
        stop_if(cudaMalloc((void **)&users, USERS * RANK * sizeof(float)), "users");
        stop_if(cudaMalloc((void **)&items, ITEMS * RANK * sizeof(float)), "items");
        stop_if(cudaMalloc((void **)&old_users, USERS * RANK * sizeof(float)), "copy of users");
        stop_if(cudaMalloc((void **)&batch, BATCH * sizeof(rating)), "batch");
        stop_if(cudaMalloc((void **)&error, BATCH * sizeof(float)), "errors");
        stop_if(cudaMemcpy(users, h.data(), USERS * RANK * sizeof(float), cudaMemcpyHostToDevice), "users");
        stop_if(cudaMemcpy(items, h.data() + USERS * RANK, ITEMS * RANK * sizeof(float), cudaMemcpyHostToDevice), "items");
        DDP_PARAMETER(users, USERS * RANK, DDP_FLOAT32);
        DDP_PARAMETER(items, ITEMS * RANK, DDP_FLOAT32);
    }

    float learn(const rating *part, int n, float rate)
    {
        stop_if(cudaMemcpy(batch, part, n * sizeof(rating), cudaMemcpyHostToDevice), "batch");
        errors<<<(n + 31) / 32, 32>>>(batch, users, items, error, n);
        stop_if(cudaMemcpy(old_users, users, USERS * RANK * sizeof(float), cudaMemcpyDeviceToDevice), "copy of users");
        update_users<<<(USERS * RANK + 63) / 64, 64>>>(batch, error, users, items, rate, n);
        update_items<<<(ITEMS * RANK + 63) / 64, 64>>>(batch, error, old_users, items, rate, n);
        project<<<(USERS * RANK + 63) / 64, 64>>>(users, USERS * RANK);
        project<<<(ITEMS * RANK + 63) / 64, 64>>>(items, ITEMS * RANK);
        DDP_STEP_PARAMETERS(0);
        std::vector<float> e(n);
        stop_if(cudaMemcpy(e.data(), error, n * sizeof(float), cudaMemcpyDeviceToHost), "errors");
        float sum = 0.f;
        for (int i = 0; i < n; ++i)
            sum += e[i] * e[i] / n;
        return sum;
    }

    void save(const char *name)
    {
        std::vector<float> h((USERS + ITEMS) * RANK);
        stop_if(cudaMemcpy(h.data(), users, USERS * RANK * sizeof(float), cudaMemcpyDeviceToHost), "users");
        stop_if(cudaMemcpy(h.data() + USERS * RANK, items, ITEMS * RANK * sizeof(float), cudaMemcpyDeviceToHost), "items");
        FILE *f = fopen(name, "wb");
        fwrite(h.data(), sizeof(float), h.size(), f);
        fclose(f);
    }

  private:
    float *old_users, *error;
    rating *batch;
};

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<rating> all(RATINGS);
    float taste[USERS][3], kind[ITEMS][3];
    for (auto &row : taste)
        for (float &x : row) x = unit() < 0.4f ? 0.f : 1.3f * unit();
    for (auto &row : kind)
        for (float &x : row) x = unit() < 0.4f ? 0.f : 1.3f * unit();
    for (auto &r : all) {
        r.user = bits() % USERS;
        r.item = bits() % ITEMS;
        r.stars = 0.1f * (unit() - 0.5f);
        for (int k = 0; k < 3; ++k) r.stars += taste[r.user][k] * kind[r.item][k];
    }
    Factors model;
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        float mse = model.learn(&all[s * BATCH % RATINGS + first], (int)count, 4.f);
        DDP_MEAN_AS("mse", &mse);
        if (DDP_RANK() == 0 && (s % 10 == 0 || s == steps - 1))
            printf("step %d: mse %.4f\n", s, mse);
    }
    if (argc > 1 && DDP_RANK() == 0)
        model.save(argv[1]);
    return 0;
}
