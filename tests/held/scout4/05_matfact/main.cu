/* Matrix factorisation with biases, mini-batch gradient descent on synthetic ratings. */
#include "mf.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

#define NUM_RATINGS 8192
#define BATCH_SIZE 256
#define EPOCHS 5

static rating_t ratings[NUM_RATINGS];

static double uniform(void) { return rand() / (RAND_MAX + 1.0); }

static float make_ratings(void)
{
    static float a[NUM_USERS][3], b[NUM_ITEMS][3];
    double sum = 0;
    for (int u = 0; u < NUM_USERS; u++) for (int k = 0; k < 3; k++) a[u][k] = 2 * uniform() - 1;
    for (int i = 0; i < NUM_ITEMS; i++) for (int k = 0; k < 3; k++) b[i][k] = 2 * uniform() - 1;
    for (int n = 0; n < NUM_RATINGS; n++) {
        int u = (int)(uniform() * NUM_USERS), i = (int)(uniform() * NUM_ITEMS);
        float r = 3.0f + a[u][0] + b[i][0] + 0.3f * (uniform() - 0.5);
        for (int k = 1; k < 3; k++) r += a[u][k] * b[i][k];
        ratings[n].u = u;
        ratings[n].i = i;
        ratings[n].r = r;
        sum += r;
    }
    return sum / NUM_RATINGS;
}

static void shuffle(void)
{
    for (int n = NUM_RATINGS - 1; n > 0; n--) {
        int m = rand() % (n + 1);
        rating_t t = ratings[n];
        ratings[n] = ratings[m];
        ratings[m] = t;
    }
}

int main(int argc, char **argv)
{
    float lr = argc > 1 ? atof(argv[1]) : 0.05f;
    float lambda = 0.02f;
    srand(7);
    float mean = make_ratings();

    factors_t model, grad;
    factors_alloc(&model);
    factors_alloc(&grad);
    factors_random(&model, 99);

    int h_users[BATCH_SIZE], h_items[BATCH_SIZE];
    float h_ratings[BATCH_SIZE];
    int *d_users, *d_items;
    float *d_ratings;
    cudaMalloc((void **)&d_users, sizeof(h_users));
    cudaMalloc((void **)&d_items, sizeof(h_items));
    cudaMalloc((void **)&d_ratings, sizeof(h_ratings));

    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double sse = 0;
        shuffle();
        for (int start = 0; start < NUM_RATINGS; start += BATCH_SIZE) {
            for (int k = 0; k < BATCH_SIZE; k++) {
                h_users[k] = ratings[start + k].u;
                h_items[k] = ratings[start + k].i;
                h_ratings[k] = ratings[start + k].r;
            }
            cudaMemcpy(d_users, h_users, sizeof(h_users), cudaMemcpyHostToDevice);
            cudaMemcpy(d_items, h_items, sizeof(h_items), cudaMemcpyHostToDevice);
            cudaMemcpy(d_ratings, h_ratings, sizeof(h_ratings), cudaMemcpyHostToDevice);

            factors_zero(&grad);
            sse += mf_gradient(&model, &grad, d_users, d_items, d_ratings, BATCH_SIZE, mean, lambda);
            mf_update(&model, &grad, lr);
        }
        printf("epoch %d  rmse %.4f\n", epoch, sqrt(sse / NUM_RATINGS));
    }

    factors_free(&model);
    factors_free(&grad);
    return 0;
}
