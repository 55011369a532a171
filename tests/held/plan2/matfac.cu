// Matrix factorisation with biases: rating(u, i) ~ mean + a_u + b_i + <p_u, q_i>.
// Mini-batches of shuffled ratings; sparse gradients go to dense buffers by atomicAdd.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <random>
#include <algorithm>

constexpr int kUsers = 24, kItems = 18, kRank = 4, kBatch = 40, kEpochs = 12;

struct Rating { int user, item; float value; };

struct Factor {            // a table of `rows` vectors of `width` floats with its gradient
    int rows, width;
    float *w, *g;
    int size() const { return rows * width; }
};

static void ok(cudaError_t e)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "matfac: %s\n", cudaGetErrorString(e));
        exit(EXIT_FAILURE);
    }
}

static Factor make_factor(int rows, int width, float scale, std::mt19937 &rng)
{
    Factor f{rows, width, nullptr, nullptr};
    std::vector<float> h(f.size());
    for (float &x : h)
        x = scale * ((rng() >> 8) * (2.0f / (1 << 24)) - 1.0f);
    ok(cudaMalloc(&f.w, h.size() * sizeof(float)));
    ok(cudaMalloc(&f.g, h.size() * sizeof(float)));
    ok(cudaMemcpy(f.w, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    ok(cudaMemset(f.g, 0, h.size() * sizeof(float)));
    return f;
}

__global__ void mf_gradients(const Rating *batch, int n, float mean, const float *p, const float *q, const float *a,
                             const float *b, float *gp, float *gq, float *ga, float *gb, float *loss)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n)
        return;
    const Rating r = batch[k];
    float guess = mean + a[r.user] + b[r.item];
    for (int f = 0; f < kRank; ++f)
        guess += p[r.user * kRank + f] * q[r.item * kRank + f];
    const float e = guess - r.value, d = 2.0f * e / n;
    for (int f = 0; f < kRank; ++f) {
        atomicAdd(&gp[r.user * kRank + f], d * q[r.item * kRank + f]);
        atomicAdd(&gq[r.item * kRank + f], d * p[r.user * kRank + f]);
    }
    atomicAdd(&ga[r.user], d);
    atomicAdd(&gb[r.item], d);
    atomicAdd(loss, e * e / n);
}

// w -= lr * (g + l2 * w), and leaves the gradient empty for the next batch
__global__ void sgd_and_clear(float *w, float *g, float lr, float l2, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n) {
        w[k] -= lr * (g[k] + l2 * w[k]);
        g[k] = 0.0f;
    }
}

__global__ void move_to(float *sum, float *g, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n) {
        sum[k] += g[k];
        g[k] = 0.0f;
    }
}

__global__ void take_mean(float *g, float *sum, int ranks, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n) {
        g[k] = sum[k] / ranks;
        sum[k] = 0.0f;
    }
}

int main(int argc, char **argv)
{
    std::string save;
    int oracle = 0;
    for (int i = 1; i < argc; ++i) {
        if (std::string(argv[i]) == "--save" && i + 1 < argc)
            save = argv[++i];
        else if (std::string(argv[i]) == "--oracle" && i + 1 < argc)
            oracle = std::atoi(argv[++i]);
    }
    std::mt19937 rng(99);
    // ratings of a hidden model of rank 2
    std::vector<float> hu(kUsers * 2), hi(kItems * 2);
    for (float &x : hu) x = (rng() % 2001) / 1000.0f - 1.0f;
    for (float &x : hi) x = (rng() % 2001) / 1000.0f - 1.0f;
    std::vector<Rating> ratings;
    float mean = 0.0f;
    for (int u = 0; u < kUsers; ++u)
        for (int i = 0; i < kItems; ++i)
            if (rng() % 10 < 8) {
                float v = 3.0f + 2.0f * (hu[2 * u] * hi[2 * i] + hu[2 * u + 1] * hi[2 * i + 1]) + ((int)(rng() % 201) - 100) / 500.0f;
                ratings.push_back({u, i, v});
                mean += v;
            }
    mean /= ratings.size();

    Factor p = make_factor(kUsers, kRank, 0.5f, rng), q = make_factor(kItems, kRank, 0.5f, rng);
    Factor a = make_factor(kUsers, 1, 0.0f, rng), b = make_factor(kItems, 1, 0.0f, rng);
    Factor *all[] = {&p, &q, &a, &b};
    float *sums[4] = {};
    for (int t = 0; t < 4 && oracle > 0; ++t) {
        ok(cudaMalloc(&sums[t], all[t]->size() * sizeof(float)));
        ok(cudaMemset(sums[t], 0, all[t]->size() * sizeof(float)));
    }
    Rating *batch;
    float *loss;
    ok(cudaMalloc(&batch, kBatch * sizeof(Rating)));
    ok(cudaMalloc(&loss, sizeof(float)));

    int waiting = 0;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        for (size_t i = ratings.size() - 1; i > 0; --i)      // a shuffle that is the same everywhere
            std::swap(ratings[i], ratings[rng() % (i + 1)]);
        ok(cudaMemset(loss, 0, sizeof(float)));
        int batches = 0;
        for (size_t at = 0; at + kBatch <= ratings.size(); at += kBatch, ++batches) {
            ok(cudaMemcpy(batch, &ratings[at], kBatch * sizeof(Rating), cudaMemcpyHostToDevice));
            mf_gradients<<<2, 32>>>(batch, kBatch, mean, p.w, q.w, a.w, b.w, p.g, q.g, a.g, b.g, loss);
            if (oracle > 0) {
                for (int t = 0; t < 4; ++t)
                    move_to<<<2, 64>>>(sums[t], all[t]->g, all[t]->size());
                if (++waiting < oracle)
                    continue;
                waiting = 0;
                for (int t = 0; t < 4; ++t)
                    take_mean<<<2, 64>>>(all[t]->g, sums[t], oracle, all[t]->size());
            }
            for (Factor *f : all)
                sgd_and_clear<<<(f->size() + 63) / 64, 64>>>(f->w, f->g, 1.5f, 0.002f, f->size());
        }
        float sum;
        ok(cudaMemcpy(&sum, loss, sizeof sum, cudaMemcpyDeviceToHost));
        printf("epoch %d: mse %.4f\n", epoch, sum / batches);
    }
    if (!save.empty()) {
        FILE *out = fopen(save.c_str(), "w");
        for (Factor *f : all) {
            std::vector<float> h(f->size());
            ok(cudaMemcpy(h.data(), f->w, h.size() * sizeof(float), cudaMemcpyDeviceToHost));
            for (float x : h) fprintf(out, "%.9g\n", x);
        }
        fclose(out);
    }
    return 0;
}
