// Unbalanced classes: each class is weighted by the inverse of its frequency in
// the batch. Weights are computed on the host and put in constant memory.
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>
#include <ddprun.h>

enum { D = 9, C = 3, BATCH = 60, TOTAL = 600 };
__constant__ float class_weight[C];
static unsigned seed = 321;
static float r01(void) { seed = seed * 22695477u + 1u; return (seed >> 8 & 0xffff) / 65536.0f; }

__global__ void train_kernel(const float *x, const int *y, const float *w, float *g, float *loss, int n)
{
    __shared__ float dl[BATCH][C];
    int t = threadIdx.x;
    if (t < n) {
        float p[C], z = 0;
        for (int c = 0; c < C; c++) {
            float a = w[D * C + c];
            for (int d = 0; d < D; d++) a += x[t * D + d] * w[d * C + c];
            z += p[c] = expf(a);
        }
        float k = class_weight[y[t]];
        loss[t] = -k * logf(p[y[t]] / z);
        for (int c = 0; c < C; c++) dl[t][c] = k * (p[c] / z - (c == y[t])) / n;
    }
    __syncthreads();
    if (t < (D + 1) * C) {
        float s = 0;
        for (int r = 0; r < n; r++) s += dl[r][t % C] * (t / C < D ? x[r * D + t / C] : 1.0f);
        g[t] = s;
    }
}

__global__ void sgd(float *w, const float *g) { w[threadIdx.x] -= 0.5f * g[threadIdx.x]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 50, s;
    static float hx[TOTAL * D];
    static int hy[TOTAL];
    float *x, *w, *g, *loss;
    int *y;
    for (int i = 0; i < TOTAL; i++) {
        float u = r01();
        hy[i] = u < 0.7f ? 0 : u < 0.9f ? 1 : 2;
        for (int d = 0; d < D; d++) hx[i * D + d] = r01() - 0.5f + (d % C == hy[i] ? 0.4f : 0);
    }
    cudaMalloc((void **)&x, sizeof hx); cudaMalloc((void **)&y, sizeof hy);
    cudaMalloc((void **)&w, (D + 1) * C * 4); cudaMalloc((void **)&g, (D + 1) * C * 4); cudaMalloc((void **)&loss, BATCH * 4);
    cudaMemcpy(x, hx, sizeof hx, cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy, sizeof hy, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, (D + 1) * C * 4);
    DDP_PARAMETER(w, (D + 1) * C, DDP_FLOAT32);
    DDP_GRADIENT(g, (D + 1) * C, DDP_FLOAT32);
    for (s = 0; s < steps; s++) {
        size_t first, n;
        DDP_SHARD(BATCH, &first, &n);
        size_t at = s * BATCH % TOTAL + first;
        float k[C] = {1, 1, 1}; /* add-one smoothing */
        for (size_t i = 0; i < n; i++) k[hy[at + i]] += 1;
        for (int c = 0; c < C; c++) k[c] = (n + C) / (C * k[c]);
        cudaMemcpyToSymbol(class_weight, k, sizeof k);
        train_kernel<<<1, 64>>>(x + at * D, y + at, w, g, loss, (int)n);
        DDP_STEP(0);
        sgd<<<1, (D + 1) * C>>>(w, g);
        if (s % 10 == 0 || s + 1 == steps) {
            float l[BATCH], m = 0;
            cudaMemcpy(l, loss, n * 4, cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < n; i++) m += l[i] / n;
            DDP_MEAN(&m);
            if (DDP_RANK() == 0) printf("%4d  loss %.4f\n", s, m);
        }
    }
    return 0;
}
