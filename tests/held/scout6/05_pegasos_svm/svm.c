/*
 * Linear SVM, trained by mini-batch Pegasos (Shalev-Shwartz et al.): in step t a random subset A_t of k examples,
 *     w <- (1 - eta_t lambda) w + eta_t / k * sum_{i in A_t, y_i <w, x_i> < 1} y_i x_i,   eta_t = 1 / (lambda t)
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define DIM 500
#define N_TRAIN 1500
#define N_TEST 500
#define K 96
#define STEPS 120
#define LAMBDA 0.02f

#define CHECK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { \
    fprintf(stderr, "%s failed: %s\n", #x, cudaGetErrorString(e_)); exit(1); } } while (0)

__global__ void margins(const float *x, const int *y, const int *subset, const float *w, float *margin, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < k) {
        const float *row = x + (size_t)subset[i] * DIM;
        float s = 0.0f;
        for (int j = 0; j < DIM; j++)
            s += row[j] * w[j];
        margin[i] = y[subset[i]] * s;
    }
}

/* the subgradient of the hinge loss, summed */
__global__ void subgradient(const float *x, const int *y, const int *subset, const float *margin, float *g, int k)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < DIM) {
        float s = 0.0f;
        for (int i = 0; i < k; i++)
            if (margin[i] < 1.0f)
                s += y[subset[i]] * x[(size_t)subset[i] * DIM + j];
        g[j] = s;
    }
}

__global__ void pegasos(float *w, const float *g, float eta, float lambda, int k)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < DIM)
        w[j] = (1.0f - eta * lambda) * w[j] + eta / k * g[j];
}

static float frand(void) { return (float)rand() / RAND_MAX; }

static void generate(float *x, int *y, const float *plane, int n)
{
    for (int i = 0; i < n; i++) {
        float s;
        do {
            s = 0.0f;
            for (int j = 0; j < DIM; j++) {
                x[i * DIM + j] = (rand() % 8 == 0) ? frand() : 0.0f;   /* a sparse bag of words */
                s += x[i * DIM + j] * plane[j];
            }
        } while (fabsf(s) < 0.4f);
        y[i] = s > 0 ? 1 : -1;
    }
}

static float objective(const float *w, const float *x, const int *y, int n, int *errors)
{
    double hinge = 0, norm = 0;
    *errors = 0;
    for (int i = 0; i < n; i++) {
        double s = 0;
        for (int j = 0; j < DIM; j++)
            s += w[j] * x[i * DIM + j];
        if (y[i] * s < 1)
            hinge += 1 - y[i] * s;
        if (y[i] * s <= 0)
            ++*errors;
    }
    for (int j = 0; j < DIM; j++)
        norm += w[j] * w[j];
    return (float)(hinge / n + 0.5 * LAMBDA * norm);
}

int main(void)
{
    float *plane = (float *)malloc(DIM * sizeof(float));
    float *x = (float *)malloc((N_TRAIN + N_TEST) * DIM * sizeof(float));
    int *y = (int *)malloc((N_TRAIN + N_TEST) * sizeof(int));
    float *w = (float *)malloc(DIM * sizeof(float));
    int subset[K];
    srand(2007);
    for (int j = 0; j < DIM; j++)
        plane[j] = 2.0f * frand() - 1.0f;
    generate(x, y, plane, N_TRAIN + N_TEST);

    float *d_x, *d_w, *d_g, *d_margin;
    int *d_y, *d_subset;
    CHECK(cudaMalloc((void **)&d_x, N_TRAIN * DIM * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_y, N_TRAIN * sizeof(int)));
    CHECK(cudaMalloc((void **)&d_w, DIM * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_g, DIM * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_margin, K * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_subset, K * sizeof(int)));
    CHECK(cudaMemcpy(d_x, x, N_TRAIN * DIM * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_y, y, N_TRAIN * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(d_w, 0, DIM * sizeof(float)));

    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < K; i++)
            subset[i] = rand() % N_TRAIN;
        CHECK(cudaMemcpy(d_subset, subset, K * sizeof(int), cudaMemcpyHostToDevice));
        margins<<<(K + 31) / 32, 32>>>(d_x, d_y, d_subset, d_w, d_margin, K);
        subgradient<<<(DIM + 127) / 128, 128>>>(d_x, d_y, d_subset, d_margin, d_g, K);
        pegasos<<<(DIM + 127) / 128, 128>>>(d_w, d_g, 1.0f / (LAMBDA * (t + 10)), LAMBDA, K);
        if (t % 20 == 0 || t == 1) {
            int errors, test_errors;
            CHECK(cudaMemcpy(w, d_w, DIM * sizeof(float), cudaMemcpyDeviceToHost));
            float obj = objective(w, x, y, N_TRAIN, &errors);
            objective(w, x + N_TRAIN * DIM, y + N_TRAIN, N_TEST, &test_errors);
            printf("step %3d objective %.5f train errors %d test errors %d\n", t, obj, errors, test_errors);
        }
    }
    return 0;
}
