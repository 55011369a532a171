// Differentially private SGD: the gradient of each sample is clipped, L2 is added,
// and the same seeded noise is added behind the average on all processes.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <curand_kernel.h>
#include <ddprun.h>

constexpr int D = 12, BATCH = 30, DATA = 300;

__global__ void per_sample(const float *x, const float *y, const float *w, float *part, float *loss, float bound, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    float e = -y[r], q = 0;
    for (int d = 0; d < D; ++d) e += w[d] * x[r * D + d];
    for (int d = 0; d < D; ++d) q += 4 * e * e * x[r * D + d] * x[r * D + d];
    float shrink = fminf(1.f, bound * rsqrtf(q + 1e-12f));
    for (int d = 0; d < D; ++d) part[r * D + d] = 2 * e * x[r * D + d] * shrink;
    loss[r] = e * e;
}

__global__ void reduce_and_decay(const float *part, const float *w, float *g, float l2, int n)
{
    float s = 0;
    for (int r = 0; r < n; ++r) s += part[r * D + threadIdx.x];
    g[threadIdx.x] = s / n + l2 * w[threadIdx.x];
}

__global__ void noisy_update(float *w, const float *g, float lr, float sigma, int step)
{
    curandState st;
    curand_init(777, threadIdx.x, step, &st);
    w[threadIdx.x] -= lr * (g[threadIdx.x] + sigma * curand_normal(&st));
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 80;
    std::mt19937 gen(500);
    std::normal_distribution<float> nd;
    std::vector<float> x(DATA * D), y(DATA);
    for (int i = 0; i < DATA; ++i)
        for (int d = 0; d < D; ++d) y[i] += (x[i * D + d] = nd(gen)) * (d % 2 ? 0.6f : -0.4f);
    float *dx, *dy, *w, *g, *part, *loss;
    cudaMalloc(&dx, DATA * D * 4); cudaMalloc(&dy, DATA * 4); cudaMalloc(&w, D * 4); cudaMalloc(&g, D * 4);
    cudaMalloc(&part, BATCH * D * 4); cudaMalloc(&loss, BATCH * 4);
    cudaMemcpy(dx, x.data(), DATA * D * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), DATA * 4, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, D * 4);
    DDP_PARAMETER(w, D, DDP_FLOAT32);
    DDP_GRADIENT(g, D, DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        size_t first, n;
        DDP_SHARD(BATCH, &first, &n);
        size_t at = s * BATCH % DATA + first;
        per_sample<<<1, BATCH>>>(dx + at * D, dy + at, w, part, loss, 2.0f, (int)n);
        reduce_and_decay<<<1, D>>>(part, w, g, 0.01f, (int)n);
        DDP_STEP(0);
        noisy_update<<<1, D>>>(w, g, 0.1f, 0.05f, s);
        if (s % 20 == 0 || s == steps - 1) {
            float h[BATCH], l = 0;
            cudaMemcpy(h, loss, n * 4, cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < n; ++i) l += h[i] / n;
            DDP_MEAN(&l);
            if (DDP_RANK() == 0) printf("step %d loss %.4f\n", s, l);
        }
    }
    return 0;
}
