#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <algorithm>
#include <random>
#include <cuda_runtime.h>
#include "ratings.h"

#define USERS 200
#define ITEMS 120
#define FACTORS 8
#define NUM_RATINGS 6000
#define MINIBATCH 200
#define NUM_EPOCHS 5

// One thread a rating. P and Q are moved right here.
__global__ void sgdKernel(const Rating *ratings, int n, float *P, float *Q, float *bu, float *bi, float mu, float lr, float reg, float *sqErr)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    Rating r = ratings[t];
    float *p = P + r.user * FACTORS;
    float *q = Q + r.item * FACTORS;
    float pred = mu + bu[r.user] + bi[r.item];
    for (int f = 0; f < FACTORS; f++) pred += p[f] * q[f];
    float e = r.value - pred;
    atomicAdd(sqErr, e * e);
    atomicAdd(&bu[r.user], lr * (e - reg * bu[r.user]));
    atomicAdd(&bi[r.item], lr * (e - reg * bi[r.item]));
    for (int f = 0; f < FACTORS; f++) {
        float pf = p[f], qf = q[f];
        atomicAdd(&p[f], lr * (e * qf - reg * pf));
        atomicAdd(&q[f], lr * (e * pf - reg * qf));
    }
}

static void initFactors(float **d, int rows, std::mt19937 &gen)
{
    std::normal_distribution<float> dist(0.f, 0.3f);
    float *h = new float[rows * FACTORS];
    for (int i = 0; i < rows * FACTORS; i++) h[i] = dist(gen);
    cudaMalloc((void **)d, rows * FACTORS * sizeof(float));
    cudaMemcpy(*d, h, rows * FACTORS * sizeof(float), cudaMemcpyHostToDevice);
    delete[] h;
}

int main()
{
    float mu;
    std::vector<Rating> ratings = loadRatings(USERS, ITEMS, NUM_RATINGS, &mu);
    std::mt19937 gen(1);

    float *P, *Q, *bu, *bi, *sqErr;
    initFactors(&P, USERS, gen);
    initFactors(&Q, ITEMS, gen);
    cudaMalloc((void **)&bu, USERS * sizeof(float));
    cudaMalloc((void **)&bi, ITEMS * sizeof(float));
    cudaMemset(bu, 0, USERS * sizeof(float));
    cudaMemset(bi, 0, ITEMS * sizeof(float));
    cudaMalloc((void **)&sqErr, sizeof(float));
    Rating *d_batch;
    cudaMalloc((void **)&d_batch, MINIBATCH * sizeof(Rating));

    float lr = 0.05f;
    for (int epoch = 0; epoch < NUM_EPOCHS; epoch++) {
        std::shuffle(ratings.begin(), ratings.end(), gen);
        cudaMemset(sqErr, 0, sizeof(float));
        for (int start = 0; start < NUM_RATINGS; start += MINIBATCH) {
            int n = std::min(MINIBATCH, NUM_RATINGS - start);
            cudaMemcpy(d_batch, &ratings[start], n * sizeof(Rating), cudaMemcpyHostToDevice);
            sgdKernel<<<(n + 63) / 64, 64>>>(d_batch, n, P, Q, bu, bi, mu, lr, 0.02f, sqErr);
        }
        float se;
        cudaMemcpy(&se, sqErr, sizeof(float), cudaMemcpyDeviceToHost);
        printf("epoch %d lr %.4f rmse %.4f\n", epoch + 1, lr, sqrtf(se / NUM_RATINGS));
        lr *= 0.95f;
    }
    cudaFree(P);
    cudaFree(Q);
    cudaFree(bu);
    cudaFree(bi);
    cudaFree(sqErr);
    cudaFree(d_batch);
    return 0;
}
