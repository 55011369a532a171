/* Factorization machine for click prediction, plain C. usage: plainc [BATCH [STEPS]]
 * Rows have ACTIVE features out of FEATURES; rows are visited in a shuffled order. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEATURES 30
#define ACTIVE   5
#define K        4
#define ROWS     400

/* one buffer: bias, linear weights, factors */
#define N_PARAMS (1 + FEATURES + FEATURES * K)

static int   rows[ROWS][ACTIVE];
static float clicks[ROWS];
static int   order[ROWS];

static float *theta, *dtheta, *state;     /* device */
static int   *d_rows;
static float *d_clicks, *d_loss;

__global__ void fm_kernel(const float *p, float *g, const int *r, const float *y, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, a, k;
    float z, s[K], d;
    if (i >= n) return;
    z = p[0];
    for (a = 0; a < ACTIVE; ++a) z += p[1 + r[i * ACTIVE + a]];
    for (k = 0; k < K; ++k) {
        float sq = 0;
        s[k] = 0;
        for (a = 0; a < ACTIVE; ++a) {
            float v = p[1 + FEATURES + r[i * ACTIVE + a] * K + k];
            s[k] += v;
            sq += v * v;
        }
        z += 0.5f * (s[k] * s[k] - sq);
    }
    d = 1 / (1 + expf(-z));
    atomicAdd(loss, -logf(y[i] > 0.5f ? d : 1 - d));
    d = (d - y[i]) / n;
    atomicAdd(&g[0], d);
    for (a = 0; a < ACTIVE; ++a) {
        int f = r[i * ACTIVE + a];
        atomicAdd(&g[1 + f], d);
        for (k = 0; k < K; ++k)
            atomicAdd(&g[1 + FEATURES + f * K + k], d * (s[k] - p[1 + FEATURES + f * K + k]));
    }
}

/* Adagrad with weight decay; empties the gradient */
__global__ void fm_update(float *p, float *g, float *h, float rate, float decay)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q < N_PARAMS) {
        float d = g[q] + decay * p[q];
        h[q] += d * d;
        p[q] -= rate * d / (sqrtf(h[q]) + 1e-4f);
        g[q] = 0;
    }
}

static void make_data(void)
{
    float taste[FEATURES], mate[FEATURES];
    int i, a;
    for (i = 0; i < FEATURES; ++i) {
        taste[i] = (rand() % 2001 - 1000) / 1000.0f;
        mate[i] = (rand() % 2001 - 1000) / 1000.0f;
    }
    for (i = 0; i < ROWS; ++i) {
        float z = 0, m = 0;
        for (a = 0; a < ACTIVE; ++a) {
            int f = rows[i][a] = a * (FEATURES / ACTIVE) + rand() % (FEATURES / ACTIVE);
            z += taste[f];
            m += mate[f];
        }
        clicks[i] = z + m * m > 1.2f;
        order[i] = i;
    }
    for (i = ROWS - 1; i > 0; --i) {
        int j = rand() % (i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

int main(int argc, char **argv)
{
    int batch = argc > 1 ? atoi(argv[1]) : 25, steps = argc > 2 ? atoi(argv[2]) : 20;
    int status = 1, step, i, next = 0;
    int *stage_rows = NULL;
    float *stage_clicks = NULL, *start = NULL, loss;

    if (batch < 1 || batch > ROWS) {
        fprintf(stderr, "plainc: BATCH is 1 to %d\n", ROWS);
        return 2;
    }
    srand(77);
    make_data();
    stage_rows = (int *)malloc(batch * sizeof rows[0]);
    stage_clicks = (float *)malloc(batch * sizeof(float));
    start = (float *)calloc(N_PARAMS, sizeof(float));
    if (cudaMalloc((void **)&theta, N_PARAMS * sizeof(float))) goto out;
    if (cudaMalloc((void **)&dtheta, N_PARAMS * sizeof(float))) goto out;
    if (cudaMalloc((void **)&state, N_PARAMS * sizeof(float))) goto out;
    if (cudaMalloc((void **)&d_rows, batch * sizeof rows[0])) goto out;
    if (cudaMalloc((void **)&d_clicks, batch * sizeof(float))) goto out;
    if (cudaMalloc((void **)&d_loss, sizeof(float))) goto out;
    for (i = 1 + FEATURES; i < N_PARAMS; ++i) start[i] = (rand() % 2001 - 1000) / 4000.0f;
    cudaMemcpy(theta, start, N_PARAMS * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(dtheta, 0, N_PARAMS * sizeof(float));
    cudaMemset(state, 0, N_PARAMS * sizeof(float));

    for (step = 0; step < steps; ++step) {
        for (i = 0; i < batch; ++i, next = (next + 1) % ROWS) {
            memcpy(stage_rows + i * ACTIVE, rows[order[next]], sizeof rows[0]);
            stage_clicks[i] = clicks[order[next]];
        }
        if (cudaMemcpy(d_rows, stage_rows, batch * sizeof rows[0], cudaMemcpyHostToDevice)) goto out;
        if (cudaMemcpy(d_clicks, stage_clicks, batch * sizeof(float), cudaMemcpyHostToDevice)) goto out;
        cudaMemset(d_loss, 0, sizeof(float));
        fm_kernel<<<(batch + 31) / 32, 32>>>(theta, dtheta, d_rows, d_clicks, d_loss, batch);
        fm_update<<<(N_PARAMS + 63) / 64, 64>>>(theta, dtheta, state, 0.15f, 1e-4f);
        if (cudaMemcpy(&loss, d_loss, sizeof loss, cudaMemcpyDeviceToHost)) goto out;
        if (step % 4 == 0 || step == steps - 1) printf("step %d: log loss %.4f\n", step, loss / batch);
    }
    status = 0;
out:
    if (status) fprintf(stderr, "plainc: CUDA failed\n");
    cudaFree(theta);
    cudaFree(dtheta);
    cudaFree(state);
    cudaFree(d_rows);
    cudaFree(d_clicks);
    cudaFree(d_loss);
    free(stage_rows);
    free(stage_clicks);
    free(start);
    return status;
}
