/* Matrix factorisation for recommendations: r(u,i) ~ mu + bu + bi + <P_u, Q_i>, Adagrad. */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include <cuda_runtime.h>

#define USERS   200
#define ITEMS   150
#define K       16
#define RATINGS 8192
#define BATCH   256
#define LAMBDA  0.01f

typedef struct { int user, item; float rating; } rating_t;

typedef struct {
    float *P, *Q, *bu, *bi;
} factors_t;

static void factors_alloc(factors_t *f)
{
    cudaMalloc((void **)&f->P, USERS * K * sizeof(float));
    cudaMalloc((void **)&f->Q, ITEMS * K * sizeof(float));
    cudaMalloc((void **)&f->bu, USERS * sizeof(float));
    cudaMalloc((void **)&f->bi, ITEMS * sizeof(float));
}

static void factors_zero(factors_t *f)
{
    cudaMemset(f->P, 0, USERS * K * sizeof(float));
    cudaMemset(f->Q, 0, ITEMS * K * sizeof(float));
    cudaMemset(f->bu, 0, USERS * sizeof(float));
    cudaMemset(f->bi, 0, ITEMS * sizeof(float));
}

__global__ void mf_grad(const rating_t *batch, int n, float mu, factors_t w, factors_t g, float *sqerr)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n) return;
    int u = batch[s].user, i = batch[s].item;
    float dot = mu + w.bu[u] + w.bi[i];
    for (int k = 0; k < K; k++) dot += w.P[u * K + k] * w.Q[i * K + k];
    float e = dot - batch[s].rating;
    sqerr[s] = e * e;
    for (int k = 0; k < K; k++) {
        atomicAdd(&g.P[u * K + k], e * w.Q[i * K + k] + LAMBDA * w.P[u * K + k]);
        atomicAdd(&g.Q[i * K + k], e * w.P[u * K + k] + LAMBDA * w.Q[i * K + k]);
    }
    atomicAdd(&g.bu[u], e);
    atomicAdd(&g.bi[i], e);
}

__global__ void adagrad(float *w, const float *g, float *h, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    h[i] += g[i] * g[i];
    w[i] -= lr * g[i] / (sqrtf(h[i]) + 1e-6f);
}

static float gauss(void)
{
    float s = 0;
    for (int i = 0; i < 12; i++) s += rand() / (float)RAND_MAX;
    return s - 6.0f;
}

static void upload_random(float *dst, int n, float scale)
{
    float *tmp = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < n; i++) tmp[i] = scale * gauss();
    cudaMemcpy(dst, tmp, n * sizeof(float), cudaMemcpyHostToDevice);
    free(tmp);
}

int main(int argc, char **argv)
{
    int epochs = argc > 1 ? atoi(argv[1]) : 4;
    srand(99);

    static float tp[USERS][4], tq[ITEMS][4];
    for (int u = 0; u < USERS; u++) for (int k = 0; k < 4; k++) tp[u][k] = gauss() * 0.7f;
    for (int i = 0; i < ITEMS; i++) for (int k = 0; k < 4; k++) tq[i][k] = gauss() * 0.7f;
    rating_t *data = (rating_t *)malloc(RATINGS * sizeof(rating_t));
    float mu = 0;
    for (int r = 0; r < RATINGS; r++) {
        int u = rand() % USERS, i = rand() % ITEMS;
        float v = 3.5f;
        for (int k = 0; k < 4; k++) v += tp[u][k] * tq[i][k];
        data[r].user = u; data[r].item = i; data[r].rating = v + 0.1f * gauss();
        mu += data[r].rating / RATINGS;
    }

    factors_t w, g, h;
    factors_alloc(&w); factors_alloc(&g); factors_alloc(&h);
    upload_random(w.P, USERS * K, 0.1f);
    upload_random(w.Q, ITEMS * K, 0.1f);
    cudaMemset(w.bu, 0, USERS * sizeof(float));
    cudaMemset(w.bi, 0, ITEMS * sizeof(float));
    factors_zero(&h);

    rating_t *d_batch;
    float *d_err, err[BATCH];
    cudaMalloc((void **)&d_batch, BATCH * sizeof(rating_t));
    cudaMalloc((void **)&d_err, sizeof(err));

    for (int epoch = 0; epoch < epochs; epoch++) {
        for (int r = RATINGS - 1; r > 0; r--) {            /* shuffle */
            int j = rand() % (r + 1);
            rating_t t = data[r]; data[r] = data[j]; data[j] = t;
        }
        double sum = 0;
        for (int off = 0; off < RATINGS; off += BATCH) {
            cudaMemcpy(d_batch, &data[off], BATCH * sizeof(rating_t), cudaMemcpyHostToDevice);
            factors_zero(&g);
            mf_grad<<<BATCH / 64, 64>>>(d_batch, BATCH, mu, w, g, d_err);
            adagrad<<<(USERS * K + 127) / 128, 128>>>(w.P, g.P, h.P, USERS * K, 0.15f);
            adagrad<<<(ITEMS * K + 127) / 128, 128>>>(w.Q, g.Q, h.Q, ITEMS * K, 0.15f);
            adagrad<<<(USERS + 127) / 128, 128>>>(w.bu, g.bu, h.bu, USERS, 0.15f);
            adagrad<<<(ITEMS + 127) / 128, 128>>>(w.bi, g.bi, h.bi, ITEMS, 0.15f);
            cudaMemcpy(err, d_err, sizeof(err), cudaMemcpyDeviceToHost);
            for (int s = 0; s < BATCH; s++) sum += err[s];
        }
        printf("epoch %d rmse %f\n", epoch + 1, sqrt(sum / RATINGS));
    }
    return 0;
}
