// Matrix factorization for ratings, SGD in the lock-free manner: each thread
// takes one rating and corrects the two factor rows at once.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <algorithm>
#include <random>
#include <vector>
#include <cuda_runtime.h>

struct Rating {
    int user, item;
    float score;
};

struct Factors {
    int users, items, rank;
    float *P;       // users x rank
    float *Q;       // items x rank
    float *user_b;  // users
    float *item_b;  // items
    float mean;
};

__device__ float predict(const Factors &f, int u, int i)
{
    float s = f.mean + f.user_b[u] + f.item_b[i];
    for (int k = 0; k < f.rank; k++) s += f.P[u * f.rank + k] * f.Q[i * f.rank + k];
    return s;
}

__global__ void sgd_ratings(Factors f, const Rating *batch, int count, float rate, float lambda, float *sq_err)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    Rating r = batch[n];
    float e = r.score - predict(f, r.user, r.item);
    atomicAdd(sq_err, e * e);
    float *p = f.P + r.user * f.rank, *q = f.Q + r.item * f.rank;
    for (int k = 0; k < f.rank; k++) {
        float pk = p[k], qk = q[k];
        atomicAdd(&p[k], rate * (e * qk - lambda * pk));
        atomicAdd(&q[k], rate * (e * pk - lambda * qk));
    }
    atomicAdd(&f.user_b[r.user], rate * (e - lambda * f.user_b[r.user]));
    atomicAdd(&f.item_b[r.item], rate * (e - lambda * f.item_b[r.item]));
}

__global__ void test_ratings(Factors f, const Rating *batch, int count, float *sq_err)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    float e = batch[n].score - predict(f, batch[n].user, batch[n].item);
    atomicAdd(sq_err, e * e);
}

static void *gpu_bytes(size_t bytes)
{
    void *p = nullptr;
    if (cudaMalloc(&p, bytes) != cudaSuccess) {
        fprintf(stderr, "cannot allocate %zu bytes\n", bytes);
        exit(1);
    }
    return p;
}

static float *gpu_random(size_t n, float sd, std::mt19937 &g)
{
    std::vector<float> h(n);
    std::normal_distribution<float> d(0, 1);
    for (auto &x : h) x = sd * d(g);
    float *p = (float *)gpu_bytes(n * sizeof(float));
    cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    return p;
}

static std::vector<Rating> make_ratings(int users, int items, int count, std::mt19937 &g)
{
    const int rank = 3;
    std::normal_distribution<float> d(0, 1);
    std::vector<float> a(users * rank), b(items * rank), ub(users), ib(items);
    for (auto *v : {&a, &b}) for (auto &x : *v) x = 0.6f * d(g);
    for (auto *v : {&ub, &ib}) for (auto &x : *v) x = 0.4f * d(g);
    std::vector<Rating> r(count);
    for (auto &x : r) {
        x.user = g() % users;
        x.item = g() % items;
        x.score = 3.2f + ub[x.user] + ib[x.item] + 0.2f * d(g);
        for (int k = 0; k < rank; k++) x.score += a[x.user * rank + k] * b[x.item * rank + k];
        x.score = std::min(5.f, std::max(1.f, x.score));
    }
    return r;
}

int main(int argc, char **argv)
{
    int users = 80, items = 60, rank = 8, batch = 128, epochs = 25;
    float rate = 0.04f, lambda = 0.02f;
    if (argc > 1) epochs = atoi(argv[1]);

    std::mt19937 g(55);
    std::vector<Rating> all = make_ratings(users, items, 4000, g);
    std::vector<Rating> test(all.begin() + 3456, all.end());
    all.resize(3456);

    Factors f;
    f.users = users;
    f.items = items;
    f.rank = rank;
    f.P = gpu_random(users * rank, 0.1f, g);
    f.Q = gpu_random(items * rank, 0.1f, g);
    f.user_b = gpu_random(users, 0, g);
    f.item_b = gpu_random(items, 0, g);
    f.mean = 0;
    for (auto &r : all) f.mean += r.score / all.size();

    Rating *d_batch = (Rating *)gpu_bytes(batch * sizeof(Rating));
    Rating *d_test = (Rating *)gpu_bytes(test.size() * sizeof(Rating));
    float *d_err = (float *)gpu_bytes(sizeof(float)), err;
    cudaMemcpy(d_test, test.data(), test.size() * sizeof(Rating), cudaMemcpyHostToDevice);

    for (int e = 0; e < epochs; e++) {
        std::shuffle(all.begin(), all.end(), g);
        cudaMemset(d_err, 0, sizeof(float));
        for (size_t s = 0; s < all.size(); s += batch) {
            int n = std::min<size_t>(batch, all.size() - s);
            cudaMemcpy(d_batch, &all[s], n * sizeof(Rating), cudaMemcpyHostToDevice);
            sgd_ratings<<<(n + 63) / 64, 64>>>(f, d_batch, n, rate, lambda, d_err);
        }
        cudaMemcpy(&err, d_err, sizeof err, cudaMemcpyDeviceToHost);
        printf("epoch %2d train rmse %.4f", e + 1, sqrtf(err / all.size()));
        cudaMemset(d_err, 0, sizeof(float));
        test_ratings<<<(test.size() + 63) / 64, 64>>>(f, d_test, test.size(), d_err);
        cudaMemcpy(&err, d_err, sizeof err, cudaMemcpyDeviceToHost);
        printf(" test rmse %.4f\n", sqrtf(err / test.size()));
        rate *= 0.97f;
    }

    std::vector<float> P(users * rank);
    cudaMemcpy(P.data(), f.P, P.size() * sizeof(float), cudaMemcpyDeviceToHost);
    if (FILE *o = fopen("user_factors.txt", "w")) {
        for (int u = 0; u < users; u++)
            for (int k = 0; k < rank; k++) fprintf(o, "%.5f%c", P[u * rank + k], k == rank - 1 ? '\n' : ' ');
        fclose(o);
    }
    for (void *p : {(void *)f.P, (void *)f.Q, (void *)f.user_b, (void *)f.item_b, (void *)d_batch, (void *)d_test, (void *)d_err})
        cudaFree(p);
    return 0;
}
