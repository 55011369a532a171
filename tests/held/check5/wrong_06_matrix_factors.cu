// Collaborative filtering: users and items have factors of eight numbers; a loader thread's place is taken by pinned memory.
#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

struct Rating {
    int user, item;
    float stars;
};

constexpr int kUsers = 60, kItems = 40, kRank = 8, kRatings = 1536, kBatch = 96, kSteps = 160;

__global__ void residuals(const Rating *r, const float *u, const float *v, float *e, float scale, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n)
        return;
    float dot = 0;
    for (int f = 0; f < kRank; ++f)
        dot += u[r[k].user * kRank + f] * v[r[k].item * kRank + f];
    e[k] = (dot - r[k].stars) * scale;
}

// one block for each row, one thread for each factor; loops over the batch, so sums have a fixed order
template <bool kForUsers> __global__ void factor_gradient(const Rating *r, const float *other, const float *e, float *g, int n)
{
    float s = 0;
    for (int k = 0; k < n; ++k) {
        int row = kForUsers ? r[k].user : r[k].item, col = kForUsers ? r[k].item : r[k].user;
        if (row == (int)blockIdx.x)
            s += e[k] * other[col * kRank + threadIdx.x];
    }
    g[blockIdx.x * kRank + threadIdx.x] = s;
}

__global__ void apply(float *w, const float *g, float rate, float decay)
{
    int i = blockIdx.x * kRank + threadIdx.x;
    w[i] -= rate * (g[i] + decay * w[i]);
}

class Trainer {
public:
    explicit Trainer(std::mt19937 &rng)
    {
        make(u_, gu_, kUsers, rng);
        make(v_, gv_, kItems, rng);
        cudaMalloc(&batch_, kBatch * sizeof(Rating));
        cudaMalloc(&e_, kBatch * sizeof(float));
        DDP_PARAMETER(u_, kUsers * kRank, DDP_FLOAT32);
        DDP_PARAMETER(v_, kItems * kRank, DDP_FLOAT32);
        DDP_GRADIENT(gu_, kUsers * kRank, DDP_FLOAT32);
        DDP_GRADIENT(gv_, kItems * kRank, DDP_FLOAT32);
    }

    double step(const Rating *records, size_t count, bool report)
    {
        int n = (int)count;
        float scale = 1.f / n;
        cudaMemcpyAsync(batch_, records, count * sizeof(Rating), cudaMemcpyHostToDevice, 0);
        residuals<<<(n + 31) / 32, 32>>>(batch_, u_, v_, e_, scale, n);
        factor_gradient<true><<<kUsers, kRank>>>(batch_, v_, e_, gu_, n);
        factor_gradient<false><<<kItems, kRank>>>(batch_, u_, e_, gv_, n);
        DDP_STEP(0);
        apply<<<kUsers, kRank>>>(u_, gu_, 2.f, 1e-4f);
        apply<<<kItems, kRank>>>(v_, gv_, 2.f, 1e-4f);
        double loss = 0;
        if (report) {
            std::vector<float> e(count);
            cudaMemcpy(e.data(), e_, count * sizeof(float), cudaMemcpyDeviceToHost);
            for (float v : e)
                loss += (double)v * v * n;
            DDP_MEAN(&loss);
        }
        return loss;
    }

private:
    static void make(float *&w, float *&g, int rows, std::mt19937 &rng)
    {
        std::normal_distribution<float> normal(0, .5f);
        std::vector<float> host(rows * kRank);
        for (auto &x : host)
            x = normal(rng);
        cudaMalloc(&w, host.size() * sizeof(float));
        cudaMalloc(&g, host.size() * sizeof(float));
        cudaMemcpy(w, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);
    }
    float *u_, *v_, *gu_, *gv_, *e_;
    Rating *batch_;
};

int main()
{
    std::mt19937 rng(7);
    std::normal_distribution<float> normal;
    Rating *ratings;
    cudaMallocHost(&ratings, kRatings * sizeof(Rating));
    std::vector<float> a(kUsers), b(kItems);
    for (auto &x : a)
        x = normal(rng);
    for (auto &x : b)
        x = normal(rng);
    for (int k = 0; k < kRatings; ++k) {
        Rating r = {int(rng() % kUsers), int(rng() % kItems), 0};
        r.stars = a[r.user] * b[r.item] + .5f * a[r.user] + .1f * normal(rng);
        ratings[k] = r;
    }
    Trainer trainer(rng);
    for (int step = 0; step < kSteps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        size_t offset = (step * count + first) % kRatings;
        bool report = step % 20 == 0 || step == kSteps - 1;
        double loss = trainer.step(ratings + offset, count, report);
        if (report && DDP_RANK() == 0)
            std::printf("step %d mse %.7g\n", step, loss);
    }
    cudaDeviceSynchronize();
    cudaFreeHost(ratings);
}
