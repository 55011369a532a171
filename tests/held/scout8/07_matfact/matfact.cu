// Matrix factorisation for recommendation with biases. Ratings are kept on the
// device as three arrays (user, item, rating); every epoch the host shuffles an
// index list, and a batch is a slice of it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>
#include <cuda_runtime.h>

constexpr int kUsers = 200;
constexpr int kItems = 150;
constexpr int kFactors = 16;
constexpr int kRatings = 6000;
constexpr int kBatch = 200;
constexpr int kEpochs = 6;
constexpr float kReg = 0.02f;
constexpr float kLr = 6.0f;

struct Ratings {
    int *user;
    int *item;
    float *value;
};

struct Model {
    float *P, *Q, *bu, *bi;       // factors and biases
    float *gP, *gQ, *gbu, *gbi;
};

__global__ void zero(float *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = 0.0f;
}

// one thread for each rating of the batch
__global__ void mf_gradient(Ratings r, const int *idx, int n, Model m, float mu, float *sqerr)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    int k = idx[t];
    int u = r.user[k], i = r.item[k];
    const float *p = m.P + u * kFactors, *q = m.Q + i * kFactors;
    float pred = mu + m.bu[u] + m.bi[i];
    for (int f = 0; f < kFactors; ++f) pred += p[f] * q[f];
    float e = pred - r.value[k];
    atomicAdd(sqerr, e * e);
    float s = 1.0f / n;
    for (int f = 0; f < kFactors; ++f) {
        atomicAdd(&m.gP[u * kFactors + f], s * (e * q[f] + kReg * p[f]));
        atomicAdd(&m.gQ[i * kFactors + f], s * (e * p[f] + kReg * q[f]));
    }
    atomicAdd(&m.gbu[u], s * (e + kReg * m.bu[u]));
    atomicAdd(&m.gbi[i], s * (e + kReg * m.bi[i]));
}

__global__ void sgd(float *w, const float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}

template <typename T> T *upload(const std::vector<T> &v)
{
    T *d = nullptr;
    cudaMalloc(&d, v.size() * sizeof(T));
    cudaMemcpy(d, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
    return d;
}

float *normal(int n, float sd, std::mt19937 &gen)
{
    std::normal_distribution<float> d(0.f, sd);
    std::vector<float> v(n);
    for (auto &x : v) x = sd > 0 ? d(gen) : 0.f;
    return upload(v);
}

int main()
{
    std::mt19937 gen(2020);
    // ground truth with 4 factors
    std::normal_distribution<float> nd(0.f, 1.f);
    std::vector<float> tu(kUsers * 4), ti(kItems * 4);
    for (auto &x : tu) x = nd(gen) * 0.6f;
    for (auto &x : ti) x = nd(gen) * 0.6f;
    std::vector<int> hu(kRatings), hi(kRatings);
    std::vector<float> hr(kRatings);
    double sum = 0;
    for (int k = 0; k < kRatings; ++k) {
        hu[k] = gen() % kUsers;
        hi[k] = gen() % kItems;
        float s = 3.0f + 0.8f * std::sin(hu[k] * 1.7f) + 0.6f * std::cos(hi[k] * 2.3f);
        for (int f = 0; f < 4; ++f) s += tu[hu[k] * 4 + f] * ti[hi[k] * 4 + f];
        hr[k] = std::min(5.0f, std::max(1.0f, std::round(s * 2) / 2));
        sum += hr[k];
    }
    Ratings r = {upload(hu), upload(hi), upload(hr)};
    float mu = sum / kRatings;

    Model m;
    m.P = normal(kUsers * kFactors, 0.1f, gen);
    m.Q = normal(kItems * kFactors, 0.1f, gen);
    m.bu = normal(kUsers, 0, gen);
    m.bi = normal(kItems, 0, gen);
    m.gP = normal(kUsers * kFactors, 0, gen);
    m.gQ = normal(kItems * kFactors, 0, gen);
    m.gbu = normal(kUsers, 0, gen);
    m.gbi = normal(kItems, 0, gen);

    std::vector<int> order(kRatings);
    std::iota(order.begin(), order.end(), 0);
    int *d_idx;
    float *d_err;
    cudaMalloc(&d_idx, kBatch * sizeof(int));
    cudaMalloc(&d_err, sizeof(float));

    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        std::shuffle(order.begin(), order.end(), gen);
        zero<<<1, 32>>>(d_err, 1);
        for (int first = 0; first < kRatings; first += kBatch) {
            cudaMemcpy(d_idx, order.data() + first, kBatch * sizeof(int), cudaMemcpyHostToDevice);
            zero<<<(kUsers * kFactors + 255) / 256, 256>>>(m.gP, kUsers * kFactors);
            zero<<<(kItems * kFactors + 255) / 256, 256>>>(m.gQ, kItems * kFactors);
            zero<<<(kUsers + 255) / 256, 256>>>(m.gbu, kUsers);
            zero<<<(kItems + 255) / 256, 256>>>(m.gbi, kItems);
            mf_gradient<<<(kBatch + 63) / 64, 64>>>(r, d_idx, kBatch, m, mu, d_err);
            sgd<<<(kUsers * kFactors + 255) / 256, 256>>>(m.P, m.gP, kUsers * kFactors, kLr);
            sgd<<<(kItems * kFactors + 255) / 256, 256>>>(m.Q, m.gQ, kItems * kFactors, kLr);
            sgd<<<(kUsers + 255) / 256, 256>>>(m.bu, m.gbu, kUsers, kLr);
            sgd<<<(kItems + 255) / 256, 256>>>(m.bi, m.gbi, kItems, kLr);
        }
        float err;
        cudaMemcpy(&err, d_err, sizeof err, cudaMemcpyDeviceToHost);
        std::printf("epoch %d: rmse %.4f\n", epoch + 1, std::sqrt(err / kRatings));
    }
    for (void *p : {(void *)r.user, (void *)r.item, (void *)r.value, (void *)m.P, (void *)m.Q, (void *)m.bu, (void *)m.bi, (void *)m.gP,
                    (void *)m.gQ, (void *)m.gbu, (void *)m.gbi, (void *)d_idx, (void *)d_err})
        cudaFree(p);
}
