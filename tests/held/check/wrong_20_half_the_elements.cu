// Embedding bag: the table has two halves (users and items), one matrix of
// gradients. Predicts a rating as a dot product.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

#define USERS 12
#define ITEMS 12
#define E 6
#define BATCH 48
#define RATINGS 960

struct Rating { int user, item; float value; };

__global__ void rate(const Rating *d, const float *table, float *err, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    float s = 0;
    for (int e = 0; e < E; ++e) s += table[d[r].user * E + e] * table[(USERS + d[r].item) * E + e];
    err[r] = s - d[r].value;
}

__global__ void table_grad(const Rating *d, const float *table, const float *err, float *grad, int n)
{
    int row = blockIdx.x, e = threadIdx.x;
    float s = 0;
    for (int r = 0; r < n; ++r) {
        if (row == d[r].user) s += err[r] * table[(USERS + d[r].item) * E + e];
        if (row == USERS + d[r].item) s += err[r] * table[d[r].user * E + e];
    }
    grad[row * E + e] = 2 * s / n;
}

__global__ void sgd(float *table, const float *grad) { int i = blockIdx.x * E + threadIdx.x; table[i] -= 0.5f * grad[i]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    std::default_random_engine rng(12);
    std::normal_distribution<float> nd;
    std::vector<float> t((USERS + ITEMS) * E), u((USERS + ITEMS) * 2);
    std::vector<Rating> data(RATINGS);
    for (auto &v : u) v = nd(rng);
    for (auto &v : t) v = 0.4f * nd(rng);
    for (auto &d : data) {
        d.user = rng() % USERS;
        d.item = rng() % ITEMS;
        d.value = u[d.user * 2] * u[(USERS + d.item) * 2] + u[d.user * 2 + 1] * u[(USERS + d.item) * 2 + 1];
    }
    Rating *dd;
    float *table, *grad, *err;
    cudaMalloc(&dd, RATINGS * sizeof(Rating));
    cudaMalloc(&table, t.size() * 4);
    cudaMalloc(&grad, t.size() * 4);
    cudaMalloc(&err, BATCH * 4);
    cudaMemcpy(dd, data.data(), RATINGS * sizeof(Rating), cudaMemcpyHostToDevice);
    cudaMemcpy(table, t.data(), t.size() * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(table, (USERS + ITEMS) * E, DDP_FLOAT32);
    DDP_GRADIENT(grad, USERS * E, DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        const Rating *batch = dd + s * BATCH % RATINGS + first;
        rate<<<1, BATCH>>>(batch, table, err, count);
        table_grad<<<USERS + ITEMS, E>>>(batch, table, err, grad, count);
        DDP_STEP(0);
        sgd<<<USERS + ITEMS, E>>>(table, grad);
        if (s % 20 == 0 || s == steps - 1) {
            float e[BATCH], m = 0;
            cudaMemcpy(e, err, count * 4, cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < count; ++i) m += e[i] * e[i] / count;
            DDP_MEAN(&m);
            if (DDP_RANK() == 0) printf("step %d mse %.4f\n", s, m);
        }
    }
    return 0;
}
