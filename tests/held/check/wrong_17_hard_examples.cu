// Binary classifier that learns only from the hardest quarter of each batch.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

const int D = 14, B = 32, N = 512;

__global__ void score(const float *x, const float *y, const float *w, float *err, float *loss, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    float s = w[D];
    for (int d = 0; d < D; ++d) s += w[d] * x[r * D + d];
    float p = 1 / (1 + expf(-s));
    err[r] = p - y[r];
    loss[r] = -logf(fmaxf(y[r] > 0 ? p : 1 - p, 1e-8f));
}

__global__ void hard_gradient(const float *x, const float *err, const float *loss, float *g, float threshold, int kept, int n)
{
    int d = threadIdx.x;
    float s = 0;
    for (int r = 0; r < n; ++r)
        if (loss[r] >= threshold) s += err[r] * (d < D ? x[r * D + d] : 1.0f);
    g[d] = s / kept;
}

__global__ void update(float *w, const float *g, float lr) { w[threadIdx.x] -= lr * g[threadIdx.x]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 80;
    std::mt19937 gen(23);
    std::normal_distribution<float> nd;
    std::vector<float> x(N * D), y(N);
    for (int i = 0; i < N; ++i) {
        float s = 0.5f;
        for (int d = 0; d < D; ++d) s += (x[i * D + d] = nd(gen)) * (d % 3 - 1);
        y[i] = s > 0;
    }
    float *dx, *dy, *w, *g, *err, *loss;
    cudaMalloc(&dx, N * D * 4); cudaMalloc(&dy, N * 4); cudaMalloc(&w, (D + 1) * 4);
    cudaMalloc(&g, (D + 1) * 4); cudaMalloc(&err, B * 4); cudaMalloc(&loss, B * 4);
    cudaMemcpy(dx, x.data(), N * D * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), N * 4, cudaMemcpyHostToDevice);
    std::vector<float> start(D + 1);
    for (auto &v : start) v = 0.3f * nd(gen);
    cudaMemcpy(w, start.data(), (D + 1) * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(w, D + 1, DDP_FLOAT32);
    DDP_GRADIENT(g, D + 1, DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        size_t at = s * B % N + first;
        score<<<1, B>>>(dx + at * D, dy + at, w, err, loss, (int)n);
        std::vector<float> l(n);
        cudaMemcpy(l.data(), loss, n * 4, cudaMemcpyDeviceToHost);
        float mean = 0;
        for (float v : l) mean += v / n;
        int kept = std::max<int>(1, n / 4);
        std::sort(l.rbegin(), l.rend());
        hard_gradient<<<1, D + 1>>>(dx + at * D, err, loss, g, l[kept - 1], kept, (int)n);
        DDP_STEP(0);
        update<<<1, D + 1>>>(w, g, 0.3f);
        DDP_MEAN(&mean);
        if (s % 10 == 0 && DDP_RANK() == 0) printf("step %d loss %.4f\n", s, mean);
    }
}
