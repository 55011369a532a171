/* A recommender of two towers: each user of a batch should prefer the own item to the items of the others. */
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

enum { USERS = 60, ITEMS = 80, DIM = 8, PAIRS = 480, BATCH = 32, STEPS = 60 };

__global__ void
gather(float *rows, const float *table, const int *ids, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * DIM)
        rows[i] = table[ids[i / DIM] * DIM + i % DIM];
}

/* Softmax of the row of scores: the pair's own item is the class. One thread a user. */
__global__ void
contrast(float *dscores, float *losses, const float *u, const float *v, int users, int candidates)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= users)
        return;
    float *d = dscores + r * candidates, largest = -1e30f, sum = 0.0f;
    for (int c = 0; c < candidates; ++c) {
        d[c] = 0.0f;
        for (int k = 0; k < DIM; ++k)
            d[c] += u[r * DIM + k] * v[c * DIM + k];
        largest = fmaxf(largest, d[c]);
    }
    for (int c = 0; c < candidates; ++c)
        sum += expf(d[c] - largest);
    losses[r] = logf(sum) + largest - d[r];
    for (int c = 0; c < candidates; ++c)
        d[c] = (expf(d[c] - largest) / sum - (c == r)) / users;
}

__global__ void
backward(float *du, float *dv, const float *dscores, const float *u, const float *v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, r = i / DIM, k = i % DIM;
    if (r >= n)
        return;
    float a = 0.0f, b = 0.0f;
    for (int c = 0; c < n; ++c) {
        a += dscores[r * n + c] * v[c * DIM + k];
        b += dscores[c * n + r] * u[c * DIM + k];
    }
    du[i] = a;
    dv[i] = b;
}

/* Adds the rows of each id in the order of the batch. */
__global__ void
scatter(float *dtable, const float *drows, const int *ids, int n, int entries)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= entries * DIM)
        return;
    float sum = 0.0f;
    for (int r = 0; r < n; ++r)
        sum += ids[r] == i / DIM ? drows[r * DIM + i % DIM] : 0.0f;
    dtable[i] = sum;
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
    std::vector<int> user_ids(PAIRS), item_ids(PAIRS);
    for (int p = 0; p < PAIRS; ++p) {
        user_ids[p] = (int)(USERS * uniform(1, p));
        item_ids[p] = (user_ids[p] % 8) * 10 + (int)(10 * uniform(2, p)); /* eight tastes */
    }
    std::vector<float> u0(USERS * DIM), v0(ITEMS * DIM);
    for (size_t i = 0; i < u0.size(); ++i)
        u0[i] = uniform(3, i) - 0.5f;
    for (size_t i = 0; i < v0.size(); ++i)
        v0[i] = uniform(4, i) - 0.5f;
    float *user_table = upload(u0), *item_table = upload(v0);
    float *duser_table = zeros(USERS * DIM), *ditem_table = zeros(ITEMS * DIM);
    float *u = zeros(BATCH * DIM), *v = zeros(BATCH * DIM), *du = zeros(BATCH * DIM), *dv = zeros(BATCH * DIM);
    float *dscores = zeros(BATCH * BATCH), *losses = zeros(BATCH);
    int *user_of = upload(user_ids), *item_of = upload(item_ids);
    DDP_PARAMETER(user_table, USERS * DIM, DDP_FLOAT32);
    DDP_PARAMETER(item_table, ITEMS * DIM, DDP_FLOAT32);
    DDP_GRADIENT(duser_table, USERS * DIM, DDP_FLOAT32);
    DDP_GRADIENT(ditem_table, ITEMS * DIM, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t begin = (size_t)(step * BATCH) % PAIRS + first;
        int n = (int)count;
        gather<<<blocks(n * DIM), 64>>>(u, user_table, user_of + begin, n);
        gather<<<blocks(n * DIM), 64>>>(v, item_table, item_of + begin, n);
        contrast<<<blocks(n), 64>>>(dscores, losses, u, v, n, n);
        backward<<<blocks(n * DIM), 64>>>(du, dv, dscores, u, v, n);
        scatter<<<blocks(USERS * DIM), 64>>>(duser_table, du, user_of + begin, n, USERS);
        scatter<<<blocks(ITEMS * DIM), 64>>>(ditem_table, dv, item_of + begin, n, ITEMS);
        DDP_STEP(0);
        descend<<<blocks(USERS * DIM), 64>>>(user_table, duser_table, 2.0f, USERS * DIM);
        descend<<<blocks(ITEMS * DIM), 64>>>(item_table, ditem_table, 2.0f, ITEMS * DIM);
        if (step % 15 == 14) {
            std::vector<float> host(count);
            CHECK(cudaMemcpy(host.data(), losses, count * sizeof(float), cudaMemcpyDeviceToHost));
            float loss = 0.0f;
            for (float l : host)
                loss += l / count;
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0)
                printf("step %d loss %.4f\n", step + 1, loss);
        }
    }
    return 0;
}
