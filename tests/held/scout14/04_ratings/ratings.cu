// Film ratings by latent factors. One Factor for each user and for each film, in two arrays of structs.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>
#include <vector>

using std::vector;

constexpr int kUsers = 90;
constexpr int kFilms = 70;
constexpr int kRank = 6;
constexpr int kRatings = 3072;
constexpr int kBatch = 128;
constexpr int kEpochs = 6;
constexpr float kPenalty = 0.02f;

struct Factor {
    float v[kRank];
    float bias;
};

struct Rating {
    int user, film;
    float stars;
};

#define CU(x)                                                                   \
    do {                                                                        \
        cudaError_t r = x;                                                      \
        if (r != cudaSuccess) {                                                 \
            std::cerr << #x << ": " << cudaGetErrorString(r) << std::endl;      \
            std::exit(2);                                                       \
        }                                                                       \
    } while (0)

__global__ void rate(const Rating *ratings, int n, const Factor *users, const Factor *films, Factor *dusers, Factor *dfilms,
                     float average, float *sse)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n)
        return;
    const Rating r = ratings[i];
    const Factor &u = users[r.user], &f = films[r.film];
    float guess = average + u.bias + f.bias;
    for (int k = 0; k < kRank; k++)
        guess += u.v[k] * f.v[k];
    const float e = guess - r.stars;
    for (int k = 0; k < kRank; k++) {
        atomicAdd(&dusers[r.user].v[k], e * f.v[k] + kPenalty * u.v[k]);
        atomicAdd(&dfilms[r.film].v[k], e * u.v[k] + kPenalty * f.v[k]);
    }
    atomicAdd(&dusers[r.user].bias, e);
    atomicAdd(&dfilms[r.film].bias, e);
    atomicAdd(sse, e * e);
}

__global__ void apply(Factor *p, const Factor *d, Factor *velocity, int n, float step, float inertia)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n)
        return;
    for (int k = 0; k < kRank; k++) {
        velocity[i].v[k] = inertia * velocity[i].v[k] - step * d[i].v[k];
        p[i].v[k] += velocity[i].v[k];
    }
    velocity[i].bias = inertia * velocity[i].bias - step * d[i].bias;
    p[i].bias += velocity[i].bias;
}

static Factor *newFactors(int n, std::mt19937 *rng)
{
    Factor *d;
    CU(cudaMalloc(&d, n * sizeof(Factor)));
    vector<Factor> h(n, Factor{});
    if (rng) {
        std::normal_distribution<float> normal(0.f, 0.3f);
        for (Factor &f : h)
            for (float &x : f.v)
                x = normal(*rng);
    }
    CU(cudaMemcpy(d, h.data(), n * sizeof(Factor), cudaMemcpyHostToDevice));
    return d;
}

static vector<Rating> makeRatings(std::mt19937 &rng)
{
    std::normal_distribution<float> normal;
    vector<Factor> u(kUsers), f(kFilms);
    for (auto *side : {&u, &f})
        for (Factor &x : *side) {
            for (float &v : x.v)
                v = 0.5f * normal(rng);
            x.bias = 0.3f * normal(rng);
        }
    vector<Rating> all(kRatings);
    for (Rating &r : all) {
        r.user = rng() % kUsers;
        r.film = rng() % kFilms;
        float s = 3.4f + u[r.user].bias + f[r.film].bias + 0.2f * normal(rng);
        for (int k = 0; k < kRank; k++)
            s += u[r.user].v[k] * f[r.film].v[k];
        r.stars = std::min(5.f, std::max(1.f, s));
    }
    return all;
}

int main()
{
    std::mt19937 rng(77);
    vector<Rating> all = makeRatings(rng);
    float average = 0;
    for (const Rating &r : all)
        average += r.stars / all.size();

    Factor *users = newFactors(kUsers, &rng), *films = newFactors(kFilms, &rng);
    Factor *dusers = newFactors(kUsers, nullptr), *dfilms = newFactors(kFilms, nullptr);
    Factor *vusers = newFactors(kUsers, nullptr), *vfilms = newFactors(kFilms, nullptr);
    Rating *batch;
    float *sse;
    CU(cudaMalloc(&batch, kBatch * sizeof(Rating)));
    CU(cudaMalloc(&sse, sizeof(float)));

    float lr = 3.0f;
    for (int epoch = 0; epoch < kEpochs; epoch++) {
        std::shuffle(all.begin(), all.end(), rng);
        CU(cudaMemset(sse, 0, sizeof(float)));
        for (size_t at = 0; at + kBatch <= all.size(); at += kBatch) {
            CU(cudaMemcpy(batch, &all[at], kBatch * sizeof(Rating), cudaMemcpyHostToDevice));
            CU(cudaMemset(dusers, 0, kUsers * sizeof(Factor)));
            CU(cudaMemset(dfilms, 0, kFilms * sizeof(Factor)));
            rate<<<(kBatch + 63) / 64, 64>>>(batch, kBatch, users, films, dusers, dfilms, average, sse);
            apply<<<(kUsers + 31) / 32, 32>>>(users, dusers, vusers, kUsers, lr / kBatch, 0.8f);
            apply<<<(kFilms + 31) / 32, 32>>>(films, dfilms, vfilms, kFilms, lr / kBatch, 0.8f);
            CU(cudaGetLastError());
        }
        float h;
        CU(cudaMemcpy(&h, sse, sizeof h, cudaMemcpyDeviceToHost));
        std::cout << "epoch " << epoch << " rmse " << std::sqrt(h / all.size()) << " lr " << lr << "\n";
        lr *= 0.9f;
    }
    for (Factor *p : {users, films, dusers, dfilms, vusers, vfilms})
        cudaFree(p);
    cudaFree(batch);
    cudaFree(sse);
}
