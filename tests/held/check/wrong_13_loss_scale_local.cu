// Linear regression with gradients in a narrow range, as in half precision:
// the loss is scaled, and a step with an overflow is skipped and the scale halved.
#include <cuda_runtime.h>
#include <ddprun.h>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define D 12
#define B 32
#define N 512
#define LIMIT 65504.0f

__global__ void errors(const float *x, const float *y, const float *w, float *e, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    float s = -y[r];
    for (int d = 0; d < D; d++) s += x[r * D + d] * w[d];
    e[r] = s;
}

__global__ void scaled_gradient(const float *x, const float *e, float *g, float scale, int n)
{
    float s = 0;
    for (int r = 0; r < n; r++) s += e[r] * x[r * D + threadIdx.x];
    s = 2 * s / n * scale;
    if (fabsf(s) > LIMIT) s = s > 0 ? INFINITY : -INFINITY; // what a half would do
    g[threadIdx.x] = s;
}

__global__ void find_inf(const float *g, int *found)
{
    if (isinf(g[threadIdx.x]) || isnan(g[threadIdx.x])) *found = 1;
}

__global__ void clear_if(float *g, const int *found) { if (*found) g[threadIdx.x] = 0; }

__global__ void sgd(float *w, const float *g, float lr, float scale) { w[threadIdx.x] -= lr * g[threadIdx.x] / scale; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::mt19937 rng(5);
    std::normal_distribution<float> nd;
    std::vector<float> x(N * D), y(N);
    for (int i = 0; i < N; i++) {
        // every 40th sample is an outlier of large magnitude
        for (int d = 0; d < D; d++) x[i * D + d] = nd(rng) * (i % 40 == 39 ? 4.0f : 1.0f);
        y[i] = 3 * x[i * D] - 2 * x[i * D + 3] + x[i * D + 7] + 0.1f * nd(rng);
    }
    float *dx, *dy, *w, *g, *e;
    int *found;
    cudaMalloc(&dx, N * D * 4); cudaMalloc(&dy, N * 4); cudaMalloc(&w, D * 4); cudaMalloc(&g, D * 4);
    cudaMalloc(&e, B * 4); cudaMalloc(&found, 4);
    cudaMemcpy(dx, x.data(), N * D * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), N * 4, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, D * 4);
    DDP_PARAMETER(w, D, DDP_FLOAT32);
    DDP_GRADIENT(g, D, DDP_FLOAT32);
    float scale = 16384;
    int good = 0;
    for (int s = 0; s < steps; s++) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        size_t at = s * B % N + first;
        errors<<<1, B>>>(dx + at * D, dy + at, w, e, (int)count);
        scaled_gradient<<<1, D>>>(dx + at * D, e, g, scale, (int)count);
        cudaMemset(found, 0, sizeof(int));
        find_inf<<<1, D>>>(g, found);
        clear_if<<<1, D>>>(g, found);
        DDP_STEP(0);
        sgd<<<1, D>>>(w, g, 0.03f, scale);
        int overflow;
        cudaMemcpy(&overflow, found, sizeof(int), cudaMemcpyDeviceToHost);
        if (overflow) { scale *= 0.5f; good = 0; }
        else if (++good == 15) { scale *= 2; good = 0; }
        if (s % 10 == 9) {
            float h[B], l = 0;
            cudaMemcpy(h, e, count * 4, cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < count; i++) l += h[i] * h[i] / count;
            DDP_MEAN(&l);
            if (DDP_RANK() == 0) printf("step %d scale %g loss %.4f\n", s + 1, scale, l);
        }
    }
    return 0;
}
