// Ridge regression; every process sums over its items and divides by the size of
// the whole batch. The mean over the ranks is then too small by the number of
// ranks, which the factor in the update puts right.
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>
#include <ddprun.h>

#define DIM 11
#define BATCH 40
#define ROWS 400

__global__ void ridge_grad(const float *x, const float *y, const float *w, float *g, float *loss, int n)
{
    int t = threadIdx.x;
    float s = 0, l = 0;
    for (int r = 0; r < n; r++) {
        float e = -y[r];
        for (int d = 0; d < DIM; d++) e += w[d] * x[r * DIM + d];
        s += e * x[r * DIM + t];
        l += e * e;
    }
    g[t] = 2 * s / BATCH;
    if (t == 0) *loss = l / n;
}

__global__ void ridge_update(float *w, const float *g, float lr, float lambda, int world)
{
    int t = threadIdx.x;
    w[t] -= lr * (g[t] * world + lambda * w[t]);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    static float hx[ROWS * DIM], hy[ROWS];
    unsigned s = 3;
    for (int i = 0; i < ROWS; i++) {
        hy[i] = 0;
        for (int d = 0; d < DIM; d++) {
            s = s * 1664525u + 1013904223u;
            hx[i * DIM + d] = (s >> 8) / 8388608.0f - 1;
            hy[i] += hx[i * DIM + d] * (d - 5);
        }
    }
    float *x, *y, *w, *g, *loss;
    cudaMalloc(&x, sizeof hx); cudaMalloc(&y, sizeof hy); cudaMalloc(&w, DIM * 4); cudaMalloc(&g, DIM * 4); cudaMalloc(&loss, 4);
    cudaMemcpy(x, hx, sizeof hx, cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy, sizeof hy, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, DIM * 4);
    DDP_PARAMETER(w, DIM, DDP_FLOAT32);
    DDP_GRADIENT(g, DIM, DDP_FLOAT32);
    for (int i = 0; i < steps; i++) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t row = i * BATCH % ROWS + first;
        ridge_grad<<<1, DIM>>>(x + row * DIM, y + row, w, g, loss, (int)count);
        DDP_STEP(0);
        ridge_update<<<1, DIM>>>(w, g, 0.2f, 0.001f, DDP_WORLD_SIZE());
        if (i % 10 == 0) {
            float l;
            cudaMemcpy(&l, loss, 4, cudaMemcpyDeviceToHost);
            DDP_MEAN(&l);
            if (DDP_RANK() == 0) printf("step %d loss %.5f\n", i, l);
        }
    }
    return 0;
}
