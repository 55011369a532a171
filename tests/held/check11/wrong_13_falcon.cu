/* Poisson regression of counts with a Gaussian prior on the weights (maximum a posteriori), Adam. The objective of a
 * batch is the negative log likelihood of its rows plus the prior's term, per row. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ddprun.h"

#define COLS    300
#define ROWS    768
#define BATCH   64
#define THREADS 64

#define CUDA_OK(x)                                                                   \
    do {                                                                             \
        cudaError_t cuda_ok_ = (x);                                                  \
        if (cuda_ok_ != cudaSuccess) {                                               \
            fprintf(stderr, "%s (line %d)\n", cudaGetErrorString(cuda_ok_), __LINE__); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

typedef struct {
    float *weights, *grad;
    float *first_moment, *second_moment;
    float precision; /* of the prior */
    int t;
} glm_t;

typedef struct {
    float *x;      /* ROWS x COLS, mostly zeros */
    float *counts; /* ROWS */
} table_t;

static unsigned long long mix_state = 42;
static float unit_random(void)
{
    unsigned long long z = (mix_state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return (float)(z >> 40) / 16777216.0f;
}

__global__ void residuals(const float *x, const float *counts, const float *w, float *res, float *nll, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float eta = 0;
    for (int c = 0; c < COLS; ++c)
        eta += x[i * COLS + c] * w[c];
    float mu = expf(fminf(eta, 6.0f));
    res[i] = mu - counts[i];
    nll[i] = mu - counts[i] * eta;
}

__global__ void likelihood_gradient(const float *x, const float *res, float *g, int n)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= COLS)
        return;
    float s = 0;
    for (int i = 0; i < n; ++i)
        s += x[i * COLS + c] * res[i];
    g[c] = s / n;
}

__global__ void add_prior(float *g, const float *w, float strength)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < COLS && c > 0) /* the intercept has no prior */
        g[c] += strength * w[c];
}

__global__ void adam_kernel(float *w, float *m, float *v, const float *g, float lr, float bias1, float bias2)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= COLS)
        return;
    m[c] = 0.9f * m[c] + 0.1f * g[c];
    v[c] = 0.99f * v[c] + 0.01f * g[c] * g[c];
    w[c] -= lr * (m[c] / bias1) / (sqrtf(v[c] / bias2) + 1e-7f);
}

static void load_table(table_t *t)
{
    float *x = (float *)calloc((size_t)ROWS * COLS, sizeof(float)), *counts = (float *)calloc(ROWS, sizeof(float));
    float *truth = (float *)malloc(COLS * sizeof(float));
    for (int c = 0; c < COLS; ++c)
        truth[c] = 1.2f * (unit_random() - 0.5f);
    for (int i = 0; i < ROWS; ++i) {
        float eta = 0.7f, limit, p = 1;
        x[i * COLS] = 1;
        for (int k = 0; k < 8; ++k) {
            int c = 1 + (int)(unit_random() * (COLS - 1));
            x[i * COLS + c] = 1;
        }
        for (int c = 1; c < COLS; ++c)
            eta += x[i * COLS + c] * truth[c];
        limit = expf(-expf(eta));
        while ((p *= unit_random()) > limit && counts[i] < 60) /* Knuth */
            counts[i] += 1;
    }
    CUDA_OK(cudaMalloc((void **)&t->x, (size_t)ROWS * COLS * sizeof(float)));
    CUDA_OK(cudaMalloc((void **)&t->counts, ROWS * sizeof(float)));
    CUDA_OK(cudaMemcpy(t->x, x, (size_t)ROWS * COLS * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(t->counts, counts, ROWS * sizeof(float), cudaMemcpyHostToDevice));
    free(x);
    free(counts);
    free(truth);
}

static void glm_create(glm_t *m, float precision)
{
    float **arrays[4] = {&m->weights, &m->grad, &m->first_moment, &m->second_moment};
    for (int k = 0; k < 4; ++k) {
        CUDA_OK(cudaMalloc((void **)arrays[k], COLS * sizeof(float)));
        CUDA_OK(cudaMemset(*arrays[k], 0, COLS * sizeof(float)));
    }
    m->precision = precision;
    m->t = 0;
    DDP_PARAMETER(m->weights, COLS, DDP_FLOAT32);
    DDP_STATE(m->first_moment, COLS, DDP_FLOAT32);
    DDP_STATE(m->second_moment, COLS, DDP_FLOAT32);
    DDP_STATE(&m->t, 1, DDP_INT32);
    DDP_GRADIENT(m->grad, COLS, DDP_FLOAT32);
}

static void glm_gradient(glm_t *m, const float *x, const float *counts, float *res, float *nll, int n)
{
    int blocks = (COLS + THREADS - 1) / THREADS;
    residuals<<<(n + THREADS - 1) / THREADS, THREADS>>>(x, counts, m->weights, res, nll, n);
    likelihood_gradient<<<blocks, THREADS>>>(x, res, m->grad, n);
    add_prior<<<blocks, THREADS>>>(m->grad, m->weights, m->precision / n);
}

static void glm_update(glm_t *m, float lr)
{
    m->t += 1;
    adam_kernel<<<(COLS + THREADS - 1) / THREADS, THREADS>>>(m->weights, m->first_moment, m->second_moment, m->grad, lr,
                                                             1 - powf(0.9f, (float)m->t), 1 - powf(0.99f, (float)m->t));
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    table_t table;
    glm_t model;
    float *res, *nll, host[BATCH];
    load_table(&table);
    glm_create(&model, 1.5f);
    CUDA_OK(cudaMalloc((void **)&res, BATCH * sizeof(float)));
    CUDA_OK(cudaMalloc((void **)&nll, BATCH * sizeof(float)));

    for (int step = 0; step < steps; ++step) {
        size_t first, count, at;
        DDP_SHARD(BATCH, &first, &count);
        at = (size_t)step * BATCH % ROWS + first;
        glm_gradient(&model, table.x + at * COLS, table.counts + at, res, nll, (int)count);
        DDP_STEP(0);
        glm_update(&model, 0.03f);
        if (step % 12 == 0 || step == steps - 1) {
            float loss = 0;
            CUDA_OK(cudaMemcpy(host, nll, count * sizeof(float), cudaMemcpyDeviceToHost));
            for (size_t i = 0; i < count; ++i)
                loss += host[i] / count;
            DDP_MEAN_AS("loss", &loss);
            if (DDP_RANK() == 0)
                printf("step %3d  loss %.4f\n", step, loss);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        float out[COLS];
        FILE *f = fopen(argv[1], "wb");
        CUDA_OK(cudaMemcpy(out, model.weights, sizeof out, cudaMemcpyDeviceToHost));
        fwrite(out, sizeof(float), COLS, f);
        fclose(f);
    }
    DDP_FORGET(&model.t);
    CUDA_OK(cudaDeviceSynchronize());
    return 0;
}
