// Linear model behind a batch normalisation without learnt scale. The sums for the
// mean and variance are taken over all processes. The input is no layer's output,
// so that nothing flows back through the statistics.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

constexpr int D = 12, B = 32, N = 256;

__global__ void column_sums(const float *x, float *sums, int n)
{
    int d = threadIdx.x;
    float a = 0, q = 0;
    for (int r = 0; r < n; ++r) { a += x[r * D + d]; q += x[r * D + d] * x[r * D + d]; }
    sums[d] = a;
    sums[D + d] = q;
    if (d == 0) sums[2 * D] = n;
}

__global__ void normalise(const float *x, const float *sums, float *xn, int n)
{
    int d = threadIdx.x;
    float mean = sums[d] / sums[2 * D], var = sums[D + d] / sums[2 * D] - mean * mean;
    for (int r = 0; r < n; ++r) xn[r * D + d] = (x[r * D + d] - mean) * rsqrtf(var + 1e-4f);
}

__global__ void regress(const float *xn, const float *y, const float *w, float *g, float *loss, int n)
{
    float s = 0, l = 0;
    for (int r = 0; r < n; ++r) {
        float e = -y[r];
        for (int d = 0; d < D; ++d) e += w[d] * xn[r * D + d];
        s += 2 * e * xn[r * D + threadIdx.x];
        l += e * e;
    }
    g[threadIdx.x] = s / n;
    if (threadIdx.x == 0) *loss = l / n;
}

__global__ void update(float *w, const float *g) { w[threadIdx.x] -= 0.1f * g[threadIdx.x]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::mt19937 rng(27);
    std::normal_distribution<float> nd;
    std::vector<float> x(N * D), y(N);
    for (int i = 0; i < N; ++i)
        for (int d = 0; d < D; ++d) {
            float v = nd(rng);
            y[i] += v * (d % 4 - 1);
            x[i * D + d] = v * (d + 1) + d;
        }
    float *dx, *dy, *xn, *sums, *w, *g, *loss;
    cudaMalloc(&dx, N * D * 4); cudaMalloc(&dy, N * 4); cudaMalloc(&xn, B * D * 4); cudaMalloc(&sums, (2 * D + 1) * 4);
    cudaMalloc(&w, D * 4); cudaMalloc(&g, D * 4); cudaMalloc(&loss, 4);
    cudaMemcpy(dx, x.data(), N * D * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), N * 4, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, D * 4);
    DDP_PARAMETER(w, D, DDP_FLOAT32);
    DDP_GRADIENT(g, D, DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        size_t at = s * B % N + first;
        column_sums<<<1, D>>>(dx + at * D, sums, (int)n);
        DDP_REDUCE(sums, 2 * D + 1, DDP_FLOAT32, DDP_OP_SUM, 0);
        normalise<<<1, D>>>(dx + at * D, sums, xn, (int)n);
        regress<<<1, D>>>(xn, dy + at, w, g, loss, (int)n);
        DDP_STEP(0);
        update<<<1, D>>>(w, g);
        if (s % 10 == 0) {
            float l;
            cudaMemcpy(&l, loss, 4, cudaMemcpyDeviceToHost);
            DDP_MEAN_AS("loss", &l);
            if (DDP_RANK() == 0) printf("step %d loss %.4f\n", s, l);
        }
    }
    return 0;
}
