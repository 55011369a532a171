// Logistic regression; gradients are kept as sums over the samples and turned into
// a mean in the update. L2 regularisation is a part of the gradient.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <random>
#include <cuda_runtime.h>
#include "ddprun.h"

#define DIM 24
#define BATCH 48
#define NUM 960

__global__ void gradient_sums(const float *x, const float *y, const float *w, float *g, float *loss, int n)
{
    __shared__ float err[BATCH];
    int t = threadIdx.x;
    if (t < n) {
        float z = 0;
        for (int d = 0; d < DIM; d++) z += x[t * DIM + d] * w[d];
        float p = 1 / (1 + expf(-z));
        err[t] = p - y[t];
        loss[t] = -logf(y[t] > 0.5f ? p : 1 - p);
    }
    __syncthreads();
    if (t < DIM) {
        float s = 0;
        for (int r = 0; r < n; r++) s += err[r] * x[r * DIM + t];
        g[t] = s;
    }
}

// batch * lambda * w, because g is a sum over the batch
__global__ void add_l2(float *g, const float *w, float scale)
{
    g[threadIdx.x] += scale * w[threadIdx.x];
}

__global__ void update(float *w, const float *g, float lr, float divisor)
{
    w[threadIdx.x] -= lr * g[threadIdx.x] / divisor;
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    const float lambda = 0.05f, lr = 0.5f;
    std::mt19937 gen(2024);
    std::normal_distribution<float> nd(0, 1);
    float truth[DIM], w[DIM];
    for (int d = 0; d < DIM; d++) { truth[d] = nd(gen); w[d] = nd(gen); }
    float *x, *y, *dw, *dg, *loss;
    cudaMallocManaged(&x, NUM * DIM * sizeof(float));
    cudaMallocManaged(&y, NUM * sizeof(float));
    cudaMallocManaged(&loss, BATCH * sizeof(float));
    for (int i = 0; i < NUM; i++) {
        float z = 0;
        for (int d = 0; d < DIM; d++) z += truth[d] * (x[i * DIM + d] = nd(gen));
        y[i] = z > 0;
    }
    cudaMalloc(&dw, sizeof w); cudaMalloc(&dg, sizeof w);
    cudaMemcpy(dw, w, sizeof w, cudaMemcpyHostToDevice);
    DDP_PARAMETER(dw, DIM, DDP_FLOAT32);
    DDP_GRADIENT(dg, DIM, DDP_FLOAT32);
    for (int s = 0; s < steps; s++) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (s * BATCH) % NUM + first;
        gradient_sums<<<1, 64>>>(x + at * DIM, y + at, dw, dg, loss, (int)count);
        add_l2<<<1, DIM>>>(dg, dw, lambda * BATCH);
        DDP_STEP(0); // the mean of the ranks' sums
        update<<<1, DIM>>>(dw, dg, lr, (float)BATCH / DDP_WORLD_SIZE());
        if (s % 10 == 0 || s + 1 == steps) {
            cudaDeviceSynchronize();
            float m = 0;
            for (size_t i = 0; i < count; i++) m += loss[i];
            m /= count;
            DDP_MEAN(&m);
            if (DDP_RANK() == 0) printf("step %d, loss %.4f\n", s, m);
        }
    }
    cudaMemcpy(w, dw, sizeof w, cudaMemcpyDeviceToHost);
    if (DDP_RANK() == 0) printf("w[0] = %.4f (truth %.4f)\n", w[0], truth[0]);
    return 0;
}
