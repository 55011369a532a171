// Matrix factorisation for rating prediction (biased MF, Adagrad)
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <random>
#include <algorithm>
using namespace std;

#define USERS   300
#define ITEMS   200
#define FACTORS 16
#define RATINGS 6400
#define BATCH   256
#define EPOCHS  5
#define LAMBDA  0.02f

typedef struct { int user; int item; float rating; } Rating;

__global__ void mf_grad(const Rating *r, int n, float mu,
                        const float *P, const float *Q, const float *bu, const float *bi,
                        float *gP, float *gQ, float *gbu, float *gbi, float *sqerr)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    int u = r[t].user, i = r[t].item;
    const float *p = P + u * FACTORS, *q = Q + i * FACTORS;
    float pred = mu + bu[u] + bi[i];
    for (int f = 0; f < FACTORS; f++) pred += p[f] * q[f];
    float e = pred - r[t].rating;
    atomicAdd(sqerr, e * e);
    for (int f = 0; f < FACTORS; f++) {
        atomicAdd(&gP[u * FACTORS + f], e * q[f] + LAMBDA * p[f]);
        atomicAdd(&gQ[i * FACTORS + f], e * p[f] + LAMBDA * q[f]);
    }
    atomicAdd(&gbu[u], e);
    atomicAdd(&gbi[i], e);
}

__global__ void adagrad(float *x, float *g, float *h, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = g[i];
    if (d == 0.0f) return;
    h[i] += d * d;
    x[i] -= lr * d / (sqrtf(h[i]) + 1e-6f);
    g[i] = 0.0f;     // ready for the next batch
}

float *upload(const vector<float> &v)
{
    float *d;
    cudaMalloc((void **)&d, v.size() * sizeof(float));
    cudaMemcpy(d, &v[0], v.size() * sizeof(float), cudaMemcpyHostToDevice);
    return d;
}

float *zeros(size_t n)
{
    return upload(vector<float>(n, 0.0f));
}

int main()
{
    default_random_engine eng(42);
    normal_distribution<float> nd(0, 1);
    vector<float> tp(USERS * 3), tq(ITEMS * 3);
    for (size_t k = 0; k < tp.size(); k++) tp[k] = nd(eng);
    for (size_t k = 0; k < tq.size(); k++) tq[k] = nd(eng);
    vector<Rating> data(RATINGS);
    double mean = 0;
    for (int k = 0; k < RATINGS; k++) {
        Rating &r = data[k];
        r.user = eng() % USERS;
        r.item = eng() % ITEMS;
        r.rating = 3.0f;
        for (int f = 0; f < 3; f++) r.rating += 0.6f * tp[r.user * 3 + f] * tq[r.item * 3 + f];
        mean += r.rating / RATINGS;
    }

    vector<float> p0(USERS * FACTORS), q0(ITEMS * FACTORS);
    for (size_t k = 0; k < p0.size(); k++) p0[k] = 0.1f * nd(eng);
    for (size_t k = 0; k < q0.size(); k++) q0[k] = 0.1f * nd(eng);
    float *P = upload(p0), *Q = upload(q0), *bu = zeros(USERS), *bi = zeros(ITEMS);
    float *gP = zeros(USERS * FACTORS), *gQ = zeros(ITEMS * FACTORS), *gbu = zeros(USERS), *gbi = zeros(ITEMS);
    float *hP = zeros(USERS * FACTORS), *hQ = zeros(ITEMS * FACTORS), *hbu = zeros(USERS), *hbi = zeros(ITEMS);
    float *sqerr = zeros(1);
    Rating *batch;
    cudaMalloc((void **)&batch, BATCH * sizeof(Rating));

    const float lr = 0.15f;
    for (int ep = 1; ep <= EPOCHS; ep++) {
        shuffle(data.begin(), data.end(), eng);
        cudaMemset(sqerr, 0, sizeof(float));
        for (int s = 0; s < RATINGS; s += BATCH) {
            int n = min(BATCH, RATINGS - s);
            cudaMemcpy(batch, &data[s], n * sizeof(Rating), cudaMemcpyHostToDevice);
            mf_grad<<<(n + 63) / 64, 64>>>(batch, n, (float)mean, P, Q, bu, bi, gP, gQ, gbu, gbi, sqerr);
            adagrad<<<(USERS * FACTORS + 127) / 128, 128>>>(P, gP, hP, lr, USERS * FACTORS);
            adagrad<<<(ITEMS * FACTORS + 127) / 128, 128>>>(Q, gQ, hQ, lr, ITEMS * FACTORS);
            adagrad<<<(USERS + 127) / 128, 128>>>(bu, gbu, hbu, lr, USERS);
            adagrad<<<(ITEMS + 127) / 128, 128>>>(bi, gbi, hbi, lr, ITEMS);
        }
        float se;
        cudaMemcpy(&se, sqerr, sizeof(float), cudaMemcpyDeviceToHost);
        printf("epoch %d rmse loss %f\n", ep, sqrt(se / RATINGS));
    }
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
