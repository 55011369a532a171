// Matrix factorization with biases, minibatch SGD. Ratings are made up from a model with three hidden factors.
#include "mf.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <random>
#include <vector>

static const int NUM_USERS = 300;
static const int NUM_ITEMS = 200;
static const int NUM_FACTORS = 8;
static const int NUM_RATINGS = 5120;
static const int BATCH_SIZE = 256;
static const int NUM_EPOCHS = 8;

template <class T>
static T *device(size_t n)
{
    T *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return p;
}

static std::vector<Rating> makeRatings(std::mt19937 &gen)
{
    std::normal_distribution<float> n01(0, 1);
    std::vector<float> u(NUM_USERS * 3), v(NUM_ITEMS * 3), a(NUM_USERS), b(NUM_ITEMS);
    for (auto &x : u) x = n01(gen) * 0.6f;
    for (auto &x : v) x = n01(gen) * 0.6f;
    for (auto &x : a) x = n01(gen) * 0.7f;
    for (auto &x : b) x = n01(gen) * 0.7f;
    std::vector<Rating> out;
    for (int i = 0; i < NUM_RATINGS; i++) {
        Rating r;
        r.user = gen() % NUM_USERS;
        r.item = gen() % NUM_ITEMS;
        r.value = 3.5f + a[r.user] + b[r.item] + 0.1f * n01(gen);
        for (int k = 0; k < 3; k++)
            r.value += u[r.user * 3 + k] * v[r.item * 3 + k];
        out.push_back(r);
    }
    return out;
}

static float *randomFactors(int n, std::mt19937 &gen)
{
    std::normal_distribution<float> d(0, 0.3f);
    std::vector<float> h(n);
    for (auto &x : h) x = d(gen);
    float *p = device<float>(n);
    cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    return p;
}

static float *zeros(int n)
{
    float *p = device<float>(n);
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

int main()
{
    std::mt19937 gen(5);
    std::vector<Rating> ratings = makeRatings(gen);
    double mean = 0;
    for (auto &r : ratings) mean += r.value;
    mean /= ratings.size();

    Model model;
    model.users = NUM_USERS;
    model.items = NUM_ITEMS;
    model.factors = NUM_FACTORS;
    model.mu = (float)mean;
    model.P = randomFactors(NUM_USERS * NUM_FACTORS, gen);
    model.Q = randomFactors(NUM_ITEMS * NUM_FACTORS, gen);
    model.bu = zeros(NUM_USERS);
    model.bi = zeros(NUM_ITEMS);

    Gradients grads;
    grads.P = device<float>(NUM_USERS * NUM_FACTORS);
    grads.Q = device<float>(NUM_ITEMS * NUM_FACTORS);
    grads.bu = device<float>(NUM_USERS);
    grads.bi = device<float>(NUM_ITEMS);

    Rating *d_ratings = device<Rating>(ratings.size());
    float *d_sqerr = device<float>(1);

    for (int epoch = 0; epoch < NUM_EPOCHS; epoch++) {
        std::shuffle(ratings.begin(), ratings.end(), gen);
        cudaMemcpy(d_ratings, ratings.data(), ratings.size() * sizeof(Rating), cudaMemcpyHostToDevice);
        cudaMemset(d_sqerr, 0, sizeof(float));
        for (size_t i = 0; i < ratings.size(); i += BATCH_SIZE) {
            int n = (int)std::min<size_t>(BATCH_SIZE, ratings.size() - i);
            launchGradients(model, grads, d_ratings + i, n, 0.02f, d_sqerr);
            launchApply(model, grads, 0.06f);
        }
        float sq;
        cudaMemcpy(&sq, d_sqerr, sizeof(float), cudaMemcpyDeviceToHost);
        printf("epoch %d  rmse %.4f\n", epoch + 1, std::sqrt(sq / ratings.size()));
    }

    for (float *p : {model.P, model.Q, model.bu, model.bi, grads.P, grads.Q, grads.bu, grads.bi, d_sqerr})
        cudaFree(p);
    cudaFree(d_ratings);
    return 0;
}
