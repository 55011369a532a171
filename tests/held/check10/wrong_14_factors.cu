// Matrix factorisation of ratings with user and item biases and ridge regularisation.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

#define TRY(x) do { cudaError_t err = (x); if (err) { std::fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(err)); std::exit(1); } } while (0)

struct Rating { int user, item; float stars; };

template <int K> struct Factors {
    int rows;
    float *value, *grad;   // rows x (K + 1), the last column is the bias
    explicit Factors(int r) : rows(r)
    {
        TRY(cudaMalloc(&value, size() * sizeof(float)));
        TRY(cudaMalloc(&grad, size() * sizeof(float)));
        TRY(cudaMemset(grad, 0, size() * sizeof(float)));
    }
    int size() const { return rows * (K + 1); }
    void fill(unsigned &seed)
    {
        std::vector<float> h(size());
        for (float &v : h) { seed = seed * 1103515245u + 12345u; v = ((seed >> 8) / 16777216.0f - 0.5f) * 0.6f; }
        TRY(cudaMemcpy(value, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
        DDP_PARAMETER(value, size(), DDP_FLOAT32);
        DDP_GRADIENT(grad, size(), DDP_FLOAT32);
    }
};

template <int K> __global__ void residuals(const Rating *r, const float *u, const float *v, float mu, float *e, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *a = u + r[i].user * (K + 1), *b = v + r[i].item * (K + 1);
    float p = mu + a[K] + b[K];
    for (int k = 0; k < K; ++k) p += a[k] * b[k];
    e[i] = p - r[i].stars;
}
template <int K> __global__ void collect(const Rating *r, const float *other, const float *e, float *grad, int by_user, int n)
{
    int row = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n; ++i)
        if ((by_user ? r[i].user : r[i].item) == row)
            s += e[i] * (k < K ? other[(by_user ? r[i].item : r[i].user) * (K + 1) + k] : 1.0f);
    grad[row * (K + 1) + k] = s / n;
}
__global__ void ridge(const float *value, float *grad, float strength, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) grad[i] += strength * value[i];
}
__global__ void descend(float *value, const float *grad, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) value[i] -= rate * grad[i];
}

int main(int argc, char **argv)
{
    constexpr int K = 6;
    const int users = 40, items = 30, ratings = 900, batch = 90;
    const int steps = argc > 2 ? std::atoi(argv[2]) : 60;
    unsigned seed = 1812433253u;
    auto uni = [&seed] { seed = seed * 1103515245u + 12345u; return (seed >> 8) / 16777216.0f; };
    std::vector<float> tu(users * 3), ti(items * 3);
    for (float &x : tu) x = 2 * uni() - 1;
    for (float &x : ti) x = 2 * uni() - 1;
    std::vector<Rating> data(ratings);
    float mu = 0;
    for (Rating &r : data) {
        r.user = int(uni() * users);
        r.item = int(uni() * items);
        r.stars = 3 + 0.2f * (uni() - 0.5f);
        for (int k = 0; k < 3; ++k) r.stars += 1.3f * tu[r.user * 3 + k] * ti[r.item * 3 + k];
        mu += r.stars / ratings;
    }
    Rating *rd;
    float *e;
    TRY(cudaMalloc(&rd, ratings * sizeof(Rating)));
    TRY(cudaMalloc(&e, batch * sizeof(float)));
    TRY(cudaMemcpy(rd, data.data(), ratings * sizeof(Rating), cudaMemcpyHostToDevice));
    Factors<K> U(users), V(items);
    U.fill(seed);
    V.fill(seed);
    const float lambda = 0.15f, rate = 4.0f;

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(batch, &first, &count);
        const int n = static_cast<int>(count);
        const Rating *part = rd + step * batch % ratings + first;
        residuals<K><<<(n + 31) / 32, 32>>>(part, U.value, V.value, mu, e, n);
        collect<K><<<users, K + 1>>>(part, V.value, e, U.grad, 1, n);
        collect<K><<<items, K + 1>>>(part, U.value, e, V.grad, 0, n);
        const float strength = lambda / n;
        ridge<<<(U.size() + 63) / 64, 64>>>(U.value, U.grad, strength, U.size());
        ridge<<<(V.size() + 63) / 64, 64>>>(V.value, V.grad, strength, V.size());
        DDP_STEP(0);
        descend<<<(U.size() + 63) / 64, 64>>>(U.value, U.grad, rate, U.size());
        descend<<<(V.size() + 63) / 64, 64>>>(V.value, V.grad, rate, V.size());
        if (step == 0 || step % 20 == 19) {
            std::vector<float> h(n);
            TRY(cudaMemcpy(h.data(), e, n * sizeof(float), cudaMemcpyDeviceToHost));
            float mse = 0;
            for (float x : h) mse += x * x / n;
            DDP_MEAN_AS("mse", &mse);
            std::printf("step %d rmse %.4f\n", step + 1, std::sqrt(mse));
        }
    }
    std::vector<float> out(U.size() + V.size());
    TRY(cudaMemcpy(out.data(), U.value, U.size() * sizeof(float), cudaMemcpyDeviceToHost));
    TRY(cudaMemcpy(out.data() + U.size(), V.value, V.size() * sizeof(float), cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        if (!f) return 1;
        std::fwrite(out.data(), sizeof(float), out.size(), f);
        std::fclose(f);
    }
    return 0;
}
