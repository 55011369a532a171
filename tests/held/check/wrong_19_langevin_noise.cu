// Bayesian linear regression by stochastic gradient Langevin dynamics: gaussian
// noise is added to the weights in each update.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <curand_kernel.h>
#include <ddprun.h>

class Langevin {
    static const int D = 16, B = 20, N = 400;
    float *x_, *y_, *w_, *g_, *e_;
    unsigned long long seed_;
public:
    explicit Langevin(unsigned long long seed);
    float step(int i, float lr);
};

__global__ void predict(const float *x, const float *y, const float *w, float *e, int dim)
{
    float s = -y[threadIdx.x];
    for (int d = 0; d < dim; ++d) s += x[threadIdx.x * dim + d] * w[d];
    e[threadIdx.x] = s;
}

__global__ void grad(const float *x, const float *e, float *g, int dim, int n)
{
    float s = 0;
    for (int r = 0; r < n; ++r) s += e[r] * x[r * dim + threadIdx.x];
    g[threadIdx.x] = 2 * s / n;
}

__global__ void langevin_update(float *w, const float *g, float lr, float temperature, unsigned long long seed, int step)
{
    curandStatePhilox4_32_10_t st;
    curand_init(seed, threadIdx.x, step * 4, &st);
    w[threadIdx.x] += -lr * g[threadIdx.x] + sqrtf(2 * lr * temperature) * curand_normal(&st);
}

Langevin::Langevin(unsigned long long seed) : seed_(seed)
{
    std::mt19937 gen(100);
    std::normal_distribution<float> nd;
    std::vector<float> x(N * D), y(N), w(D);
    for (auto &v : w) v = nd(gen);
    for (int i = 0; i < N; ++i) {
        y[i] = 0.2f * nd(gen);
        for (int d = 0; d < D; ++d) y[i] += w[d] * (x[i * D + d] = nd(gen));
    }
    cudaMalloc(&x_, N * D * 4); cudaMalloc(&y_, N * 4); cudaMalloc(&w_, D * 4); cudaMalloc(&g_, D * 4); cudaMalloc(&e_, B * 4);
    cudaMemcpy(x_, x.data(), N * D * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(y_, y.data(), N * 4, cudaMemcpyHostToDevice);
    cudaMemset(w_, 0, D * 4);
    DDP_PARAMETER(w_, D, DDP_FLOAT32);
    DDP_GRADIENT(g_, D, DDP_FLOAT32);
}

float Langevin::step(int i, float lr)
{
    size_t first, n;
    DDP_SHARD(B, &first, &n);
    size_t at = i * B % N + first;
    predict<<<1, (unsigned)n>>>(x_ + at * D, y_ + at, w_, e_, D);
    grad<<<1, D>>>(x_ + at * D, e_, g_, D, (int)n);
    DDP_STEP(0);
    langevin_update<<<1, D>>>(w_, g_, lr, 0.001f, seed_, i);
    float h[B], loss = 0;
    cudaMemcpy(h, e_, n * 4, cudaMemcpyDeviceToHost);
    for (size_t k = 0; k < n; ++k) loss += h[k] * h[k] / n;
    return loss;
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    Langevin model(2025 + DDP_RANK());
    for (int i = 0; i < steps; ++i) {
        float loss = model.step(i, 0.05f);
        if (i % 10 == 0) {
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0) printf("step %d: %.4f\n", i, loss);
        }
    }
    return 0;
}
