// Matrix factorization with biases for a recommender: r_ui = mu + b_u + c_i + p_u . q_i
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>
#include <cuda_runtime.h>

#define CUDA_CALL(x) if ((x) != cudaSuccess) { printf("Error at %s:%d\n", __FILE__, __LINE__); exit(1); }

struct Rating {
    int user;
    int item;
    float value;
};

struct Model {
    int users, items, k;
    float mu;
    float *P, *Q, *bu, *bi;
    float *gP, *gQ, *gbu, *gbi;
};

__global__ void rating_gradients(const Rating *r, int n, Model m, float lambda, float *err2)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= n) return;
    int u = r[idx].user, i = r[idx].item;
    float pred = m.mu + m.bu[u] + m.bi[i];
    for (int f = 0; f < m.k; f++)
        pred += m.P[u * m.k + f] * m.Q[i * m.k + f];
    float e = pred - r[idx].value;
    err2[idx] = e * e;
    float scale = 1.0f / n;
    atomicAdd(&m.gbu[u], scale * (e + lambda * m.bu[u]));
    atomicAdd(&m.gbi[i], scale * (e + lambda * m.bi[i]));
    for (int f = 0; f < m.k; f++) {
        float p = m.P[u * m.k + f], q = m.Q[i * m.k + f];
        atomicAdd(&m.gP[u * m.k + f], scale * (e * q + lambda * p));
        atomicAdd(&m.gQ[i * m.k + f], scale * (e * p + lambda * q));
    }
}

__global__ void apply_gradients(float *param, float *grad, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        param[i] -= lr * grad[i];
        grad[i] = 0.0f;      // ready for the next batch
    }
}

float *device_random(int n, float sd, std::mt19937 &gen)
{
    std::vector<float> h(n);
    std::normal_distribution<float> d(0, sd);
    for (float &x : h) x = d(gen);
    float *p;
    CUDA_CALL(cudaMalloc(&p, n * sizeof(float)));
    CUDA_CALL(cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    return p;
}

float *device_zeros(int n)
{
    float *p;
    CUDA_CALL(cudaMalloc(&p, n * sizeof(float)));
    CUDA_CALL(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

int main(int argc, char **argv)
{
    const int users = 200, items = 150, k = 8, n_ratings = 6400;
    int batch_size = 256;
    float lr = 12.0f, lambda = 0.02f;
    if (argc > 1) batch_size = atoi(argv[1]);
    if (argc > 2) lr = atof(argv[2]);

    std::mt19937 gen(99);
    std::normal_distribution<float> nd(0, 1);
    std::vector<float> tp(users * 3), tq(items * 3), tb(users);
    for (auto &v : tp) v = nd(gen);
    for (auto &v : tq) v = nd(gen) * 0.5f;
    for (auto &v : tb) v = nd(gen) * 0.5f;
    std::vector<Rating> ratings;
    double mean = 0;
    for (int n = 0; n < n_ratings; n++) {
        Rating r;
        r.user = gen() % users;
        r.item = gen() % items;
        float v = 3.5f + tb[r.user] + 0.1f * nd(gen);
        for (int f = 0; f < 3; f++) v += tp[r.user * 3 + f] * tq[r.item * 3 + f];
        r.value = std::min(5.0f, std::max(1.0f, v));
        mean += r.value;
        ratings.push_back(r);
    }

    Model m;
    m.users = users;
    m.items = items;
    m.k = k;
    m.mu = mean / n_ratings;
    m.P = device_random(users * k, 0.3f, gen);
    m.Q = device_random(items * k, 0.3f, gen);
    m.bu = device_zeros(users);
    m.bi = device_zeros(items);
    m.gP = device_zeros(users * k);
    m.gQ = device_zeros(items * k);
    m.gbu = device_zeros(users);
    m.gbi = device_zeros(items);

    Rating *d_batch;
    float *d_err;
    CUDA_CALL(cudaMalloc(&d_batch, batch_size * sizeof(Rating)));
    CUDA_CALL(cudaMalloc(&d_err, batch_size * sizeof(float)));
    std::vector<float> err(batch_size);

    for (int epoch = 0; epoch < 8; epoch++) {
        std::shuffle(ratings.begin(), ratings.end(), gen);
        double sum = 0;
        for (int start = 0; start + batch_size <= n_ratings; start += batch_size) {
            CUDA_CALL(cudaMemcpy(d_batch, &ratings[start], batch_size * sizeof(Rating), cudaMemcpyHostToDevice));
            rating_gradients<<<(batch_size + 63) / 64, 64>>>(d_batch, batch_size, m, lambda, d_err);
            apply_gradients<<<(users * k + 255) / 256, 256>>>(m.P, m.gP, lr, users * k);
            apply_gradients<<<(items * k + 255) / 256, 256>>>(m.Q, m.gQ, lr, items * k);
            apply_gradients<<<(users + 255) / 256, 256>>>(m.bu, m.gbu, lr, users);
            apply_gradients<<<(items + 255) / 256, 256>>>(m.bi, m.gbi, lr, items);
            CUDA_CALL(cudaMemcpy(err.data(), d_err, batch_size * sizeof(float), cudaMemcpyDeviceToHost));
            for (float e : err) sum += e;
        }
        lr *= 0.95f;
        printf("epoch %d: train RMSE = %.4f\n", epoch, sqrt(sum / n_ratings));
    }
    return 0;
}
