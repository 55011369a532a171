// Polyak average of the weights for evaluation; a test pass every 20 steps uses it.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>
#define D 13
#define B 32
#define N 320
#define TEST 64

__global__ void residual(const float *x, const float *y, const float *w, float *e, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    e[r] = -y[r];
    for (int d = 0; d < D; d++) e[r] += x[r * D + d] * w[d];
}
__global__ void huber_grad(const float *x, const float *e, float *g, int n)
{
    float s = 0;
    for (int r = 0; r < n; r++) s += fminf(fmaxf(e[r], -1.f), 1.f) * x[r * D + threadIdx.x];
    g[threadIdx.x] = s / n;
}
__global__ void update(float *w, const float *g, float lr) { w[threadIdx.x] -= lr * g[threadIdx.x]; }
__global__ void average(float *a, const float *w, float k) { a[threadIdx.x] += k * (w[threadIdx.x] - a[threadIdx.x]); }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    std::mt19937 g(91);
    std::normal_distribution<float> nd;
    std::vector<float> x((N + TEST) * D), y(N + TEST);
    for (int i = 0; i < N + TEST; i++)
        for (int d = 0; d < D; d++) y[i] += (x[i * D + d] = nd(g)) * ((d * 3 % 7) - 3) * 0.3f;
    float *dx, *dy, *w, *dw, *avg, *e;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dy, y.size() * 4); cudaMalloc(&w, D * 4); cudaMalloc(&dw, D * 4);
    cudaMalloc(&avg, D * 4); cudaMalloc(&e, TEST * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), y.size() * 4, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, D * 4); cudaMemset(avg, 0, D * 4);
    DDP_PARAMETER(w, D, DDP_FLOAT32);
    DDP_GRADIENT(dw, D, DDP_FLOAT32);
    for (int s = 0; s < steps; s++) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        size_t at = s * B % N + first;
        residual<<<1, B>>>(dx + at * D, dy + at, w, e, (int)n);
        huber_grad<<<1, D>>>(dx + at * D, e, dw, (int)n);
        DDP_STEP(0);
        update<<<1, D>>>(w, dw, 0.3f);
        average<<<1, D>>>(avg, w, 0.1f);
        if (s % 20 == 19) { // every process evaluates the whole test set
            float h[TEST], l = 0;
            residual<<<1, TEST>>>(dx + N * D, dy + N, avg, e, TEST);
            cudaMemcpy(h, e, sizeof h, cudaMemcpyDeviceToHost);
            for (float v : h) l += v * v / TEST;
            if (DDP_RANK() == 0) printf("step %d test loss %.5f\n", s + 1, l);
        }
    }
    return 0;
}
