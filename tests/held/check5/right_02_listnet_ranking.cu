/* ListNet: a two-layer scorer ranks the eight documents of a query; cross entropy of two softmaxes over the list. */
#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DOCS     8
#define FEATURES 10
#define HIDDEN   12
#define QUERIES  256
#define BATCH    32
#define STEPS    100
#define WEIGHTS  (FEATURES * HIDDEN + HIDDEN)

struct query {
    float x[DOCS][FEATURES];
    float relevance[DOCS];
};

/* One thread for each query; its gradient goes to a row of its own, of WEIGHTS elements. */
__global__ void
listnet(const struct query *queries, const float *w, float *rows, float *losses, float share)
{
    const struct query *q = &queries[blockIdx.x];
    float h[DOCS][HIDDEN], s[DOCS], p[DOCS], t[DOCS], zs = 0, zt = 0, loss = 0;
    float *row = rows + blockIdx.x * WEIGHTS;
    for (int d = 0; d < DOCS; ++d) {
        s[d] = 0;
        for (int j = 0; j < HIDDEN; ++j) {
            float a = 0;
            for (int f = 0; f < FEATURES; ++f)
                a += q->x[d][f] * w[f * HIDDEN + j];
            h[d][j] = a > 0 ? a : .1f * a;
            s[d] += h[d][j] * w[FEATURES * HIDDEN + j];
        }
        zs += p[d] = expf(s[d]);
        zt += t[d] = expf(q->relevance[d]);
    }
    for (int i = 0; i < WEIGHTS; ++i)
        row[i] = 0;
    for (int d = 0; d < DOCS; ++d) {
        p[d] /= zs;
        t[d] /= zt;
        loss -= t[d] * logf(p[d]);
        float ds = (p[d] - t[d]) * share;
        for (int j = 0; j < HIDDEN; ++j) {
            float da = ds * w[FEATURES * HIDDEN + j] * (h[d][j] > 0 ? 1 : .1f);
            row[FEATURES * HIDDEN + j] += ds * h[d][j];
            for (int f = 0; f < FEATURES; ++f)
                row[f * HIDDEN + j] += da * q->x[d][f];
        }
    }
    losses[blockIdx.x] = loss;
}

__global__ void
add_rows(const float *rows, int count, float *g)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= WEIGHTS)
        return;
    float sum = 0;
    for (int r = 0; r < count; ++r)
        sum += rows[r * WEIGHTS + i];
    g[i] = sum;
}

__global__ void
momentum_sgd(float *w, const float *g, float *m, float times, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= WEIGHTS)
        return;
    m[i] = .8f * m[i] + times * g[i] + 1e-3f * w[i];
    w[i] -= rate * m[i];
}

static float
uniform(void)
{
    return (float)rand() / (float)RAND_MAX - 0.5f;
}

int
main(void)
{
    static struct query host[QUERIES];
    float truth[FEATURES], w_host[WEIGHTS], loss_host[BATCH];
    struct query *queries;
    float *w, *g, *m, *rows, *losses;
    srand(77);
    for (int f = 0; f < FEATURES; ++f)
        truth[f] = 3 * uniform();
    for (int i = 0; i < QUERIES; ++i)
        for (int d = 0; d < DOCS; ++d) {
            for (int f = 0; f < FEATURES; ++f)
                host[i].relevance[d] += truth[f] * (host[i].x[d][f] = 2 * uniform());
        }
    for (int i = 0; i < WEIGHTS; ++i)
        w_host[i] = uniform();
    cudaMalloc((void **)&queries, sizeof host);
    cudaMalloc((void **)&w, sizeof w_host);
    cudaMalloc((void **)&g, sizeof w_host);
    cudaMalloc((void **)&m, sizeof w_host);
    cudaMalloc((void **)&rows, BATCH * sizeof w_host);
    cudaMalloc((void **)&losses, sizeof loss_host);
    cudaMemcpy(queries, host, sizeof host, cudaMemcpyHostToDevice);
    cudaMemcpy(w, w_host, sizeof w_host, cudaMemcpyHostToDevice);
    cudaMemset(m, 0, sizeof w_host);
    DDP_PARAMETER(w, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(g, WEIGHTS, DDP_FLOAT32);
    DDP_STATE(m, WEIGHTS, DDP_FLOAT32);
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (size_t)step * BATCH % QUERIES + first;
        /* a share of the whole batch's mean; the mean over ranks becomes a sum in the optimizer */
        listnet<<<(unsigned)count, 1>>>(queries + at, w, rows, losses, 1.0f / BATCH);
        add_rows<<<5, 32>>>(rows, (int)count, g);
        DDP_STEP(0);
        momentum_sgd<<<5, 32>>>(w, g, m, (float)DDP_WORLD_SIZE(), 0.1f);
        if (step % 20 == 0 || step + 1 == STEPS) {
            float loss = 0;
            cudaMemcpy(loss_host, losses, count * sizeof(float), cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < count; ++i)
                loss += loss_host[i] / (float)count;
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0)
                printf("%3d  %.7g\n", step, loss);
        }
    }
    return 0;
}
