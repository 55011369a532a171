/* Matrix factorisation of ratings by mini-batch SGD:
   r(u,i) ~ mu + bu + bi + <P_u, Q_i>                                        */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

#define N_USERS 150
#define N_ITEMS 100
#define K 8
#define N_RATINGS 4000
#define LAMBDA 0.02f
#define THREADS 256

typedef struct {
    int *user, *item;
    float *rating;
} ratings_t;

typedef struct {
    float *P, *Q, *bu, *bi;
} factors_t;

#define DIE_ON(e)                                             \
    do {                                                      \
        cudaError_t rc = (e);                                 \
        if (rc) {                                             \
            fprintf(stderr, "%s\n", cudaGetErrorString(rc));  \
            exit(2);                                          \
        }                                                     \
    } while (0)

__global__ void batch_gradient(ratings_t r, int first, int count, factors_t f, factors_t g, float mu, float *sse)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= count) return;
    int u = r.user[first + t], i = r.item[first + t];
    float pred = mu + f.bu[u] + f.bi[i];
    for (int k = 0; k < K; k++) pred += f.P[u * K + k] * f.Q[i * K + k];
    float e = pred - r.rating[first + t];
    for (int k = 0; k < K; k++) {
        float p = f.P[u * K + k], q = f.Q[i * K + k];
        atomicAdd(&g.P[u * K + k], e * q + LAMBDA * p);
        atomicAdd(&g.Q[i * K + k], e * p + LAMBDA * q);
    }
    atomicAdd(&g.bu[u], e + LAMBDA * f.bu[u]);
    atomicAdd(&g.bi[i], e + LAMBDA * f.bi[i]);
    atomicAdd(sse, e * e);
}

__global__ void axpy(float *w, const float *g, int n, float alpha)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] += alpha * g[i];
}

static float unit(void) { return (float)rand() / ((float)RAND_MAX + 1.0f); }
static float normal(void) { return sqrtf(-2.0f * logf(unit() + 1e-7f)) * cosf(6.2831853f * unit()); }

static float *upload(const float *h, int n)
{
    float *d;
    DIE_ON(cudaMalloc((void **)&d, n * sizeof(float)));
    if (h) DIE_ON(cudaMemcpy(d, h, n * sizeof(float), cudaMemcpyHostToDevice));
    else DIE_ON(cudaMemset(d, 0, n * sizeof(float)));
    return d;
}

static float *random_factors(int n)
{
    float *h = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < n; i++) h[i] = 0.3f * normal();
    float *d = upload(h, n);
    free(h);
    return d;
}

static void clear_gradients(factors_t *g)
{
    cudaMemsetAsync(g->P, 0, N_USERS * K * sizeof(float));
    cudaMemsetAsync(g->Q, 0, N_ITEMS * K * sizeof(float));
    cudaMemsetAsync(g->bu, 0, N_USERS * sizeof(float));
    cudaMemsetAsync(g->bi, 0, N_ITEMS * sizeof(float));
}

static void descend(factors_t *f, const factors_t *g, float rate)
{
    axpy<<<(N_USERS * K + THREADS - 1) / THREADS, THREADS>>>(f->P, g->P, N_USERS * K, -rate);
    axpy<<<(N_ITEMS * K + THREADS - 1) / THREADS, THREADS>>>(f->Q, g->Q, N_ITEMS * K, -rate);
    axpy<<<(N_USERS + THREADS - 1) / THREADS, THREADS>>>(f->bu, g->bu, N_USERS, -rate);
    axpy<<<(N_ITEMS + THREADS - 1) / THREADS, THREADS>>>(f->bi, g->bi, N_ITEMS, -rate);
}

int main(void)
{
    static int hu[N_RATINGS], hi[N_RATINGS];
    static float hr[N_RATINGS], tp[N_USERS][3], tq[N_ITEMS][3];
    const int batch = 500, epochs = 20;
    float mu = 0.0f;

    srand(1998);
    for (int u = 0; u < N_USERS; u++) for (int k = 0; k < 3; k++) tp[u][k] = 0.6f * normal();
    for (int i = 0; i < N_ITEMS; i++) for (int k = 0; k < 3; k++) tq[i][k] = 0.6f * normal();
    for (int n = 0; n < N_RATINGS; n++) {
        int u = hu[n] = (int)(unit() * N_USERS), i = hi[n] = (int)(unit() * N_ITEMS);
        hr[n] = 3.4f + 0.5f * tp[u][0] + 0.5f * tq[i][0] + 0.1f * normal();
        for (int k = 0; k < 3; k++) hr[n] += tp[u][k] * tq[i][k];
        mu += hr[n] / N_RATINGS;
    }

    ratings_t r;
    DIE_ON(cudaMalloc((void **)&r.user, sizeof(hu)));
    DIE_ON(cudaMalloc((void **)&r.item, sizeof(hi)));
    DIE_ON(cudaMemcpy(r.user, hu, sizeof(hu), cudaMemcpyHostToDevice));
    DIE_ON(cudaMemcpy(r.item, hi, sizeof(hi), cudaMemcpyHostToDevice));
    r.rating = upload(hr, N_RATINGS);

    factors_t f, g;
    f.P = random_factors(N_USERS * K);
    f.Q = random_factors(N_ITEMS * K);
    f.bu = upload(NULL, N_USERS);
    f.bi = upload(NULL, N_ITEMS);
    g.P = upload(NULL, N_USERS * K);
    g.Q = upload(NULL, N_ITEMS * K);
    g.bu = upload(NULL, N_USERS);
    g.bi = upload(NULL, N_ITEMS);
    float *sse, h;
    DIE_ON(cudaMalloc((void **)&sse, sizeof(float)));

    float lr = 60.0f;
    for (int e = 0; e < epochs; e++) {
        DIE_ON(cudaMemset(sse, 0, sizeof(float)));
        for (int first = 0; first < N_RATINGS; first += batch) {
            clear_gradients(&g);
            batch_gradient<<<(batch + THREADS - 1) / THREADS, THREADS>>>(r, first, batch, f, g, mu, sse);
            descend(&f, &g, lr / batch);
        }
        DIE_ON(cudaMemcpy(&h, sse, sizeof(float), cudaMemcpyDeviceToHost));
        printf("epoch %2d  rmse %.5f\n", e, sqrtf(h / N_RATINGS));
        if (e >= 10) lr *= 0.9f;
    }
    cudaFree(r.user); cudaFree(r.item); cudaFree(r.rating);
    cudaFree(f.P); cudaFree(f.Q); cudaFree(f.bu); cudaFree(f.bi);
    cudaFree(g.P); cudaFree(g.Q); cudaFree(g.bu); cudaFree(g.bi);
    cudaFree(sse);
    return 0;
}
