/* Input dropout with masks that are hashed from the number of the sample in the
 * whole run, so a sample has the same mask wherever it is computed. */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>
#include <ddprun.h>

#define D 20
#define B 32
#define N 640

__device__ static unsigned hash3(unsigned a, unsigned b)
{
    unsigned h = a * 0x9E3779B1u ^ b * 0x85EBCA77u;
    h ^= h >> 15; h *= 0x2C1B3C6Du; h ^= h >> 12; h *= 0x297A2D39u; h ^= h >> 15;
    return h;
}

__global__ void logistic(const float *x, const float *y, const float *w, float *masked, float *e, float *l, unsigned number, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    float s = 0;
    for (int d = 0; d < D; d++) {
        float m = hash3(number + r, d) % 10 < 7 ? x[r * D + d] / 0.7f : 0.0f;
        masked[r * D + d] = m;
        s += m * w[d];
    }
    float p = 1 / (1 + expf(-s));
    e[r] = p - y[r];
    l[r] = -logf((y[r] > 0 ? p : 1 - p) + 1e-7f);
}

__global__ void gradient(const float *masked, const float *e, float *g, int n)
{
    float s = 0;
    for (int r = 0; r < n; r++) s += e[r] * masked[r * D + threadIdx.x];
    g[threadIdx.x] = s / n;
}

__global__ void update(float *w, const float *g) { w[threadIdx.x] -= 0.4f * g[threadIdx.x]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    float *x, *y, *w, *g, *masked, *e, *l;
    cudaMallocHost((void **)&x, N * D * sizeof(float));
    cudaMallocHost((void **)&y, N * sizeof(float));
    srand(70);
    for (int i = 0; i < N; i++) {
        float s = 0;
        for (int d = 0; d < D; d++) s += (x[i * D + d] = rand() % 200 / 100.0f - 1) * (d % 2 ? 1 : -1);
        y[i] = s > 0;
    }
    float *dx, *dy;
    cudaMalloc((void **)&dx, N * D * 4); cudaMalloc((void **)&dy, N * 4); cudaMalloc((void **)&w, D * 4); cudaMalloc((void **)&g, D * 4);
    cudaMalloc((void **)&masked, B * D * 4); cudaMalloc((void **)&e, B * 4); cudaMalloc((void **)&l, B * 4);
    cudaMemcpy(dx, x, N * D * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y, N * 4, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, D * 4);
    DDP_PARAMETER(w, D, DDP_FLOAT32);
    DDP_GRADIENT(g, D, DDP_FLOAT32);
    for (int s = 0; s < steps; s++) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        size_t at = s * B % N + first;
        logistic<<<1, B>>>(dx + at * D, dy + at, w, masked, e, l, (unsigned)(s * B + first), (int)n);
        gradient<<<1, D>>>(masked, e, g, (int)n);
        DDP_STEP(0);
        update<<<1, D>>>(w, g);
        if (s % 10 == 0) {
            float h[B], m = 0;
            cudaMemcpy(h, l, n * 4, cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < n; i++) m += h[i] / n;
            DDP_MEAN(&m);
            if (DDP_RANK() == 0) printf("step %d: %.4f\n", s, m);
        }
    }
    cudaFreeHost(x); cudaFreeHost(y);
    return 0;
}
