/* Principal directions of a stream of vectors by Hebbian learning (Oja's rule with deflation): no gradient buffers, the
 * rule adds to the weights directly, and each row of weights is kept at length 1. */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>
#include <ddprun.h>

#define DIM   12
#define UNITS 3
#define BATCH 48

typedef float row_t[DIM];

#define RUN(x)                                                          \
    if ((x) != cudaSuccess) {                                           \
        fprintf(stderr, "subspace: %s failed\n", #x);                   \
        return EXIT_FAILURE;                                            \
    }

/* y = W x for each vector, and what W^T y leaves of it. */
__global__ void
respond(const row_t *w, const row_t *x, float *y, float *left, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float rest = 0;
    for (int u = 0; u < UNITS; ++u) {
        float s = 0;
        for (int d = 0; d < DIM; ++d)
            s += w[u][d] * x[i][d];
        y[i * UNITS + u] = s;
    }
    for (int d = 0; d < DIM; ++d) {
        float e = x[i][d];
        for (int u = 0; u < UNITS; ++u)
            e -= y[i * UNITS + u] * w[u][d];
        rest += e * e;
    }
    left[i] = rest;
}

/* Sanger: unit u learns what the units up to u leave. A thread for each weight; `old` is a copy of w. */
__global__ void
hebb(row_t *w, const row_t *old, const row_t *x, const float *y, float rate, int n)
{
    int u = threadIdx.x / DIM, d = threadIdx.x % DIM;
    float s = 0;
    for (int i = 0; i < n; ++i) {
        float e = x[i][d];
        for (int k = 0; k <= u; ++k)
            e -= y[i * UNITS + k] * old[k][d];
        s += y[i * UNITS + u] * e;
    }
    w[u][d] += rate * s / n;
}

__global__ void
unit_length(row_t *w)
{
    int u = threadIdx.x;
    float s = 0;
    for (int d = 0; d < DIM; ++d)
        s += w[u][d] * w[u][d];
    s = rsqrtf(s);
    for (int d = 0; d < DIM; ++d)
        w[u][d] *= s;
}

static float
noise(unsigned *s)
{
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
        *s ^= *s << 13;
        *s ^= *s >> 17;
        *s ^= *s << 5;
        sum += (float)(*s & 0xffffff) / 16777216.0f - 0.5f;
    }
    return sum;
}

int
main(void)
{
    enum { VECTORS = 5 * BATCH, STEPS = 15 };
    static row_t data[VECTORS], start[UNITS];
    static float left[BATCH];
    unsigned seed = 2463534242u;
    for (int i = 0; i < VECTORS; ++i) {
        float a = 2.5f * noise(&seed), b = 1.6f * noise(&seed), c = noise(&seed);
        for (int d = 0; d < DIM; ++d)
            data[i][d] = a * (d % 2) + b * (d < DIM / 2) + c * (d % 3 == 0) + 0.3f * noise(&seed);
    }
    for (int u = 0; u < UNITS; ++u)
        for (int d = 0; d < DIM; ++d)
            start[u][d] = 0.4f * noise(&seed);

    row_t *w, *old, *x;
    float *y, *d_left;
    RUN(cudaMalloc((void **)&w, sizeof start));
    RUN(cudaMalloc((void **)&old, sizeof start));
    RUN(cudaMalloc((void **)&x, BATCH * sizeof(row_t)));
    RUN(cudaMalloc((void **)&y, BATCH * UNITS * sizeof(float)));
    RUN(cudaMalloc((void **)&d_left, sizeof left));
    RUN(cudaMemcpy(w, start, sizeof start, cudaMemcpyHostToDevice));
    unit_length<<<1, UNITS>>>(w);
    DDP_PARAMETER(w, UNITS * DIM, DDP_FLOAT32);

    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        const row_t *from = data + step % 5 * BATCH + first;
        RUN(cudaMemcpy(x, from, count * sizeof(row_t), cudaMemcpyHostToDevice));
        RUN(cudaMemcpy(old, w, sizeof start, cudaMemcpyDeviceToDevice));
        respond<<<2, 32>>>(w, x, y, d_left, (int)count);
        hebb<<<1, UNITS * DIM>>>(w, old, x, y, 0.25f / (1 + 0.1f * step), (int)count);
        unit_length<<<1, UNITS>>>(w);
        DDP_STEP_PARAMETERS(0);

        RUN(cudaMemcpy(left, d_left, count * sizeof(float), cudaMemcpyDeviceToHost));
        float mean = 0;
        for (size_t i = 0; i < count; ++i)
            mean += left[i];
        mean /= count;
        DDP_MEAN(&mean);
        if (DDP_RANK() == 0)
            printf("%3d: %.5f left of each vector\n", step, mean);
    }
    return EXIT_SUCCESS;
}
