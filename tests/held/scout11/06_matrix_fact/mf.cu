// Biased matrix factorisation of ratings, mini batches of (user, item, rating) triples.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>
#include <cuda_runtime.h>

inline void gpuAssert(cudaError_t code, const char *what)
{
    if (code != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(code));
}
#define GPU(x) gpuAssert((x), #x)

namespace mf {

struct Rating {
    int user;
    int item;
    float value;
};

struct Config {
    int users = 300;
    int items = 200;
    int factors = 16;
    int ratings = 8192;
    int batch = 256;
    int epochs = 4;
    float lr = 12.0f;
    float lambda = 0.0005f;
    float momentum = 0.9f;
};

class Dataset {
public:
    explicit Dataset(const Config &c)
    {
        std::mt19937 gen(99);
        std::normal_distribution<float> nd(0.f, 1.f);
        std::vector<float> p(c.users * 4), q(c.items * 4);
        for (auto &v : p) v = nd(gen);
        for (auto &v : q) v = nd(gen);
        for (int i = 0; i < c.ratings; ++i) {
            Rating r{(int)(gen() % c.users), (int)(gen() % c.items), 3.5f + 0.1f * nd(gen)};
            for (int k = 0; k < 4; ++k) r.value += 0.5f * p[r.user * 4 + k] * q[r.item * 4 + k];
            all.push_back(r);
        }
    }
    void shuffle(std::mt19937 &gen) { std::shuffle(all.begin(), all.end(), gen); }
    const Rating *batch(int first) const { return &all[first]; }
    int size() const { return (int)all.size(); }

private:
    std::vector<Rating> all;
};

__global__ void backward(const Rating *ratings, int n, int k, float mean, const float *P, const float *Q, const float *bu, const float *bi,
                         float *dP, float *dQ, float *dbu, float *dbi, float lambda, float *sse)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Rating r = ratings[i];
    const float *p = P + r.user * k, *q = Q + r.item * k;
    float pred = mean + bu[r.user] + bi[r.item];
    for (int f = 0; f < k; ++f) pred += p[f] * q[f];
    float err = pred - r.value;
    atomicAdd(sse, err * err);
    float inv = 1.f / n;
    for (int f = 0; f < k; ++f) {
        atomicAdd(&dP[r.user * k + f], inv * (err * q[f] + lambda * p[f]));
        atomicAdd(&dQ[r.item * k + f], inv * (err * p[f] + lambda * q[f]));
    }
    atomicAdd(&dbu[r.user], inv * err);
    atomicAdd(&dbi[r.item], inv * err);
}

__global__ void momentumStep(float *w, float *g, float *vel, int n, float lr, float mu)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        vel[i] = mu * vel[i] - lr * (1.f - mu) * g[i];
        w[i] += vel[i];
        g[i] = 0.f; // ready for the next batch
    }
}

struct Table {
    float *value = nullptr, *grad = nullptr, *velocity = nullptr;
    int count = 0;

    void create(int n, float sigma, std::mt19937 &gen)
    {
        count = n;
        std::normal_distribution<float> nd(0.f, 1.f);
        std::vector<float> host(n);
        for (auto &v : host) v = sigma * nd(gen);
        GPU(cudaMalloc(&value, n * sizeof(float)));
        GPU(cudaMalloc(&grad, n * sizeof(float)));
        GPU(cudaMalloc(&velocity, n * sizeof(float)));
        GPU(cudaMemcpy(value, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        GPU(cudaMemset(grad, 0, n * sizeof(float)));
        GPU(cudaMemset(velocity, 0, n * sizeof(float)));
    }
    void update(float lr, float mu, cudaStream_t s) { momentumStep<<<8, 128, 0, s>>>(value, grad, velocity, count, lr, mu); }
    ~Table()
    {
        cudaFree(value);
        cudaFree(grad);
        cudaFree(velocity);
    }
};

class Trainer {
public:
    Trainer(const Config &cfg, Dataset &data) : cfg(cfg), data(data), gen(5)
    {
        P.create(cfg.users * cfg.factors, 0.2f, gen);
        Q.create(cfg.items * cfg.factors, 0.2f, gen);
        bu.create(cfg.users, 0.f, gen);
        bi.create(cfg.items, 0.f, gen);
        GPU(cudaStreamCreate(&stream));
        GPU(cudaMallocHost(&pinned, cfg.batch * sizeof(Rating)));
        GPU(cudaMalloc(&d_batch, cfg.batch * sizeof(Rating)));
        GPU(cudaMalloc(&d_sse, sizeof(float)));
    }
    ~Trainer()
    {
        cudaFreeHost(pinned);
        cudaFree(d_batch);
        cudaFree(d_sse);
        cudaStreamDestroy(stream);
    }
    void run()
    {
        for (int e = 0; e < cfg.epochs; ++e) {
            data.shuffle(gen);
            GPU(cudaMemsetAsync(d_sse, 0, sizeof(float), stream));
            for (int first = 0; first + cfg.batch <= data.size(); first += cfg.batch)
                trainBatch(first);
            float sse;
            GPU(cudaMemcpyAsync(&sse, d_sse, sizeof(float), cudaMemcpyDeviceToHost, stream));
            GPU(cudaStreamSynchronize(stream));
            std::printf("epoch %d: loss (rmse) %.4f\n", e, std::sqrt(sse / data.size()));
            cfg.lr *= 0.9f;
        }
    }

private:
    void trainBatch(int first)
    {
        GPU(cudaStreamSynchronize(stream)); // the pinned buffer is free again
        std::copy(data.batch(first), data.batch(first) + cfg.batch, pinned);
        GPU(cudaMemcpyAsync(d_batch, pinned, cfg.batch * sizeof(Rating), cudaMemcpyHostToDevice, stream));
        backward<<<(cfg.batch + 63) / 64, 64, 0, stream>>>(d_batch, cfg.batch, cfg.factors, 3.5f, P.value, Q.value, bu.value, bi.value, P.grad,
                                                           Q.grad, bu.grad, bi.grad, cfg.lambda, d_sse);
        P.update(cfg.lr, cfg.momentum, stream);
        Q.update(cfg.lr, cfg.momentum, stream);
        bu.update(cfg.lr, cfg.momentum, stream);
        bi.update(cfg.lr, cfg.momentum, stream);
    }

    Config cfg;
    Dataset &data;
    std::mt19937 gen;
    Table P, Q, bu, bi;
    cudaStream_t stream;
    Rating *pinned, *d_batch;
    float *d_sse;
};

} // namespace mf

int main()
{
    try {
        mf::Config config;
        mf::Dataset data(config);
        mf::Trainer trainer(config, data);
        trainer.run();
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    return 0;
}
