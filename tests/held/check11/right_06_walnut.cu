/* Matrix factorisation of ratings, four passes to an update. After each pass the gradients are brought together;
 * weight decay is mixed into them and their rows are centred before that. Clipped by norm, then SGD. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ddprun.h"

#define USERS  40
#define ITEMS  30
#define RANK   8
#define PASSES 4
#define CHUNK  64
#define TRIPLES 2560

#define QUIT_IF(x)                                                         \
    do {                                                                   \
        if (x) {                                                           \
            fprintf(stderr, "line %d: %s\n", __LINE__, #x);                \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

typedef struct {
    int user, item;
    float rating;
} triple;

static unsigned s0 = 123456789u, s1 = 362436069u;
static unsigned bits(void)
{
    s0 = 36969 * (s0 & 65535) + (s0 >> 16);
    s1 = 18000 * (s1 & 65535) + (s1 >> 16);
    return (s0 << 16) + s1;
}
static float between(float lo, float hi) { return lo + (hi - lo) * (bits() / 4294967296.0f); }

__global__ void errors(const triple *t, const float *u, const float *v, float *err, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float s = 0;
    for (int k = 0; k < RANK; ++k)
        s += u[t[i].user * RANK + k] * v[t[i].item * RANK + k];
    err[i] = s - t[i].rating;
}

/* Adds to the gradient of one side. One thread an element; `user` says which side. */
__global__ void add_gradient(const triple *t, const float *other, const float *mine, const float *err, float *g,
                             int rows, int n, int user, float scale, float decay)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= rows * RANK)
        return;
    int row = e / RANK, k = e % RANK;
    float s = 0;
    for (int i = 0; i < n; ++i)
        if ((user ? t[i].user : t[i].item) == row)
            s += err[i] * other[(user ? t[i].item : t[i].user) * RANK + k];
    g[e] += s * scale / n + decay * mine[e];
}

/* Takes a fifth of the mean of each row away. */
__global__ void centre_rows(float *g, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float mean = 0;
    for (int k = 0; k < RANK; ++k)
        mean += g[r * RANK + k] / RANK;
    for (int k = 0; k < RANK; ++k)
        g[r * RANK + k] -= 0.2f * mean;
}

__global__ void square_norm(const float *gu, const float *gv, float *norm)
{
    __shared__ float part[64];
    float s = 0;
    for (int i = threadIdx.x; i < USERS * RANK; i += 64)
        s += gu[i] * gu[i];
    for (int i = threadIdx.x; i < ITEMS * RANK; i += 64)
        s += gv[i] * gv[i];
    part[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 64; ++i)
            s += part[i];
        *norm = s;
    }
}

__global__ void clipped_sgd(float *w, float *g, int n, const float *norm, float limit, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float length = sqrtf(*norm);
    w[i] -= rate * g[i] * (length > limit ? limit / length : 1.0f);
    g[i] = 0;
}

static float *filled(int n, float scale)
{
    float *h = (float *)malloc(n * sizeof(float)), *d;
    for (int i = 0; i < n; ++i)
        h[i] = scale * between(-1, 1);
    QUIT_IF(cudaMalloc((void **)&d, n * sizeof(float)));
    QUIT_IF(cudaMemcpy(d, h, n * sizeof(float), cudaMemcpyHostToDevice));
    free(h);
    return d;
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    static triple data[TRIPLES];
    static float fu[USERS * 3], fv[ITEMS * 3];
    for (int i = 0; i < USERS * 3; ++i)
        fu[i] = between(-1, 1);
    for (int i = 0; i < ITEMS * 3; ++i)
        fv[i] = between(-1, 1);
    for (int i = 0; i < TRIPLES; ++i) {
        data[i].user = bits() % USERS;
        data[i].item = bits() % ITEMS;
        data[i].rating = between(-0.1f, 0.1f) + 1;
        for (int k = 0; k < 3; ++k)
            data[i].rating += fu[data[i].user * 3 + k] * fv[data[i].item * 3 + k];
    }
    triple *t;
    QUIT_IF(cudaMalloc((void **)&t, sizeof data));
    QUIT_IF(cudaMemcpy(t, data, sizeof data, cudaMemcpyHostToDevice));
    float *u = filled(USERS * RANK, 0.5f), *v = filled(ITEMS * RANK, 0.5f);
    float *gu = filled(USERS * RANK, 0), *gv = filled(ITEMS * RANK, 0), *err = filled(CHUNK, 0), *norm = filled(1, 0);
    DDP_PARAMETER(u, USERS * RANK, DDP_FLOAT32);
    DDP_PARAMETER(v, ITEMS * RANK, DDP_FLOAT32);
    DDP_GRADIENT(gu, USERS * RANK, DDP_FLOAT32);
    DDP_GRADIENT(gv, ITEMS * RANK, DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        float loss = 0;
        for (int pass = 0; pass < PASSES; ++pass) {
            size_t first, count, at;
            DDP_SHARD(CHUNK, &first, &count);
            at = (size_t)(step * PASSES + pass) * CHUNK % TRIPLES + first;
            int n = (int)count;

            errors<<<(n + 31) / 32, 32>>>(t + at, u, v, err, n);
            add_gradient<<<(USERS * RANK + 63) / 64, 64>>>(t + at, v, u, err, gu, USERS, n, 1, 1.0f / PASSES, 5e-4f);
            add_gradient<<<(ITEMS * RANK + 63) / 64, 64>>>(t + at, u, v, err, gv, ITEMS, n, 0, 1.0f / PASSES, 5e-4f);
            centre_rows<<<1, USERS>>>(gu, USERS);
            centre_rows<<<1, ITEMS>>>(gv, ITEMS);
            DDP_STEP(0);

            float e[CHUNK];
            QUIT_IF(cudaMemcpy(e, err, n * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; ++i)
                loss += 0.5f * e[i] * e[i] / (n * PASSES);
        }
        square_norm<<<1, 64>>>(gu, gv, norm);
        clipped_sgd<<<(USERS * RANK + 63) / 64, 64>>>(u, gu, USERS * RANK, norm, 0.15f, 3.0f);
        clipped_sgd<<<(ITEMS * RANK + 63) / 64, 64>>>(v, gv, ITEMS * RANK, norm, 0.15f, 3.0f);

        if (step % 10 == 0 || step == steps - 1) {
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0)
                printf("update %d: loss %.4f\n", step, loss);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        static float out[(USERS + ITEMS) * RANK];
        QUIT_IF(cudaMemcpy(out, u, USERS * RANK * sizeof(float), cudaMemcpyDeviceToHost));
        QUIT_IF(cudaMemcpy(out + USERS * RANK, v, ITEMS * RANK * sizeof(float), cudaMemcpyDeviceToHost));
        FILE *f = fopen(argv[1], "wb");
        fwrite(out, sizeof(float), (USERS + ITEMS) * RANK, f);
        fclose(f);
    }
    QUIT_IF(cudaDeviceSynchronize());
    return 0;
}
