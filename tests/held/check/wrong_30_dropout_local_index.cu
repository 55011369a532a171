// Hidden layer with dropout; the mask is drawn in the forward kernel.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <curand_kernel.h>
#include <ddprun.h>

constexpr int I = 6, H = 24, B = 32, N = 320;
static const float KEEP = 0.8f;

__global__ void hidden(const float *x, const float *w, float *h, unsigned long long seed, int step, float keep, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * H) return;
    float a = 0;
    for (int i = 0; i < I; ++i) a += x[t / H * I + i] * w[i * H + t % H];
    curandStatePhilox4_32_10_t rng;
    curand_init(seed, t, step * 4, &rng);
    h[t] = a > 0 && curand_uniform(&rng) < keep ? a / keep : 0;
}

__global__ void output(const float *h, const float *v, const float *y, float *e, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    e[r] = -y[r];
    for (int k = 0; k < H; ++k) e[r] += h[r * H + k] * v[k];
}

__global__ void grads(const float *x, const float *h, const float *v, const float *e, float *gw, float *gv, float keep, int n)
{
    int k = threadIdx.x;
    float s = 0, acc[I] = {};
    for (int r = 0; r < n; ++r) {
        float d = 2 * e[r] / n;
        s += d * h[r * H + k];
        if (h[r * H + k] > 0)
            for (int i = 0; i < I; ++i) acc[i] += d * v[k] / keep * x[r * I + i];
    }
    gv[k] = s;
    for (int i = 0; i < I; ++i) gw[i * H + k] = acc[i];
}

__global__ void sgd(float *w, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 80;
    std::mt19937 gen(88);
    std::uniform_real_distribution<float> u(-1, 1);
    std::vector<float> x(N * I), y(N), w(I * H), v(H);
    for (int i = 0; i < N; ++i) {
        for (int k = 0; k < I; ++k) x[i * I + k] = u(gen);
        y[i] = 1 + x[i * I] * 2 + fabsf(x[i * I + 1]);
    }
    for (auto &f : w) f = u(gen);
    for (auto &f : v) f = 0.3f * u(gen);
    float *dx, *dy, *dw, *dv, *gw, *gv, *h, *e;
    cudaMalloc(&dx, N * I * 4); cudaMalloc(&dy, N * 4); cudaMalloc(&dw, I * H * 4); cudaMalloc(&dv, H * 4);
    cudaMalloc(&gw, I * H * 4); cudaMalloc(&gv, H * 4); cudaMalloc(&h, B * H * 4); cudaMalloc(&e, B * 4);
    cudaMemcpy(dx, x.data(), N * I * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), N * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dw, w.data(), I * H * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dv, v.data(), H * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(dw, I * H, DDP_FLOAT32);
    DDP_PARAMETER(dv, H, DDP_FLOAT32);
    DDP_GRADIENT(gw, I * H, DDP_FLOAT32);
    DDP_GRADIENT(gv, H, DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        size_t at = s * B % N + first;
        hidden<<<(n * H + 127) / 128, 128>>>(dx + at * I, dw, h, 42ULL, s, KEEP, n);
        output<<<1, B>>>(h, dv, dy + at, e, n);
        grads<<<1, H>>>(dx + at * I, h, dv, e, gw, gv, KEEP, n);
        DDP_STEP(0);
        sgd<<<3, 64>>>(dw, gw, 0.05f, I * H);
        sgd<<<1, 64>>>(dv, gv, 0.05f, H);
        if (s % 20 == 19) {
            float he[B], l = 0;
            cudaMemcpy(he, e, n * 4, cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < n; ++i) l += he[i] * he[i] / n;
            DDP_MEAN(&l);
            if (DDP_RANK() == 0) printf("step %d loss %.4f\n", s + 1, l);
        }
    }
    return 0;
}
