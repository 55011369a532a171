// 100 samples in batches of 27: neither the batch nor the last one (19) is even.
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>
#include <ddprun.h>

#define DIM 7
#define BATCH 27
#define COUNT 100

__global__ void grad_mean(const float *x, const float *y, const float *w, float *g, float *sum, int n)
{
    float s = 0, l = 0;
    for (int r = 0; r < n; r++) {
        float e = -y[r];
        for (int d = 0; d < DIM; d++) e += x[r * DIM + d] * w[d];
        s += e * x[r * DIM + threadIdx.x];
        l += e * e;
    }
    g[threadIdx.x] = n ? s / n : 0;
    if (threadIdx.x == 0) *sum = l;
}

__global__ void sgd(float *w, const float *g) { w[threadIdx.x] -= 0.3f * g[threadIdx.x]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60, pos = 0;
    float hx[COUNT * DIM], hy[COUNT], *x, *y, *w, *g, *sum;
    srand48(13);
    for (int i = 0; i < COUNT; i++) {
        hy[i] = 0.05f * (float)drand48();
        for (int d = 0; d < DIM; d++) hy[i] += (hx[i * DIM + d] = (float)drand48() * 2 - 1) * (d - 3);
    }
    cudaMalloc(&x, sizeof hx); cudaMalloc(&y, sizeof hy); cudaMalloc(&w, DIM * 4); cudaMalloc(&g, DIM * 4); cudaMalloc(&sum, 4);
    cudaMemcpy(x, hx, sizeof hx, cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy, sizeof hy, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, DIM * 4);
    DDP_PARAMETER(w, DIM, DDP_FLOAT32);
    DDP_GRADIENT(g, DIM, DDP_FLOAT32);
    for (int s = 0; s < steps; s++) {
        int batch = pos + BATCH <= COUNT ? BATCH : COUNT - pos;
        size_t first, n;
        DDP_SHARD(batch, &first, &n);
        DDP_WEIGHT(n, batch);
        grad_mean<<<1, DIM>>>(x + (pos + first) * DIM, y + pos + first, w, g, sum, (int)n);
        DDP_STEP(0);
        sgd<<<1, DIM>>>(w, g);
        pos = (pos + batch) % COUNT;
        if (s % 10 == 0) {
            double l;
            float h;
            cudaMemcpy(&h, sum, 4, cudaMemcpyDeviceToHost);
            l = h * DDP_WORLD_SIZE() / batch;
            DDP_MEAN(&l);
            if (DDP_RANK() == 0) printf("step %d loss %.5f\n", s, l);
        }
    }
    return 0;
}
