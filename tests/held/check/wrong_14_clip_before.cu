// Recurrent net (one tanh unit layer, 6 time steps) with gradient norm clipping.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

namespace rnn {
constexpr int H = 8, T = 6, B = 16, N = 320;
constexpr int P = H + H * H + H; // input weights, recurrent weights, output weights
}
using namespace rnn;

// one thread unrolls one sequence; its gradient goes to part[r]
__global__ void bptt(const float *x, const float *y, const float *p, float *part, float *loss, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float h[T + 1][H], d[H], e[H], *g = part + r * P, o = 0;
    const float *wi = p, *wh = p + H, *wo = p + H + H * H;
    for (int i = 0; i < P; ++i) g[i] = 0;
    for (int j = 0; j < H; ++j) h[0][j] = 0;
    for (int t = 0; t < T; ++t)
        for (int j = 0; j < H; ++j) {
            float s = wi[j] * x[r * T + t];
            for (int k = 0; k < H; ++k) s += wh[k * H + j] * h[t][k];
            h[t + 1][j] = tanhf(s);
        }
    for (int j = 0; j < H; ++j) o += wo[j] * h[T][j];
    float err = o - y[r];
    loss[r] = err * err;
    for (int j = 0; j < H; ++j) { g[H + H * H + j] = 2 * err * h[T][j]; d[j] = 2 * err * wo[j]; }
    for (int t = T - 1; t >= 0; --t) {
        for (int j = 0; j < H; ++j) e[j] = d[j] * (1 - h[t + 1][j] * h[t + 1][j]);
        for (int k = 0; k < H; ++k) {
            g[k] += e[k] * x[r * T + t];
            d[k] = 0;
            for (int j = 0; j < H; ++j) { g[H + k * H + j] += e[j] * h[t][k]; d[k] += wh[k * H + j] * e[j]; }
        }
    }
}

__global__ void reduce_mean(const float *part, float *grad, int n)
{
    float s = 0;
    for (int r = 0; r < n; ++r) s += part[r * P + threadIdx.x];
    grad[threadIdx.x] = s / n;
}

__global__ void square_sum(const float *grad, float *norm2)
{
    float s = 0;
    for (int i = 0; i < P; ++i) s += grad[i] * grad[i];
    *norm2 = s;
}

__global__ void clip(float *grad, const float *norm2, float max_norm)
{
    float norm = sqrtf(*norm2);
    if (norm > max_norm) grad[threadIdx.x] *= max_norm / norm;
}

__global__ void sgd(float *p, const float *grad, float lr) { p[threadIdx.x] -= lr * grad[threadIdx.x]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    unsigned s = 1;
    auto rnd = [&s] { s = s * 1664525u + 1013904223u; return (s >> 9) / 4194304.0f - 1.0f; };
    std::vector<float> x(N * T), y(N), p(P);
    for (int i = 0; i < N; ++i) {
        y[i] = 0;
        for (int t = 0; t < T; ++t) { x[i * T + t] = rnd(); y[i] += x[i * T + t] * (t % 2 ? 1.0f : 0.5f); }
    }
    for (auto &v : p) v = 0.4f * rnd();
    float *dx, *dy, *dp, *part, *grad, *norm2, *loss;
    cudaMalloc(&dx, N * T * 4); cudaMalloc(&dy, N * 4); cudaMalloc(&dp, P * 4); cudaMalloc(&part, B * P * 4);
    cudaMalloc(&grad, P * 4); cudaMalloc(&norm2, 4); cudaMalloc(&loss, B * 4);
    cudaMemcpy(dx, x.data(), N * T * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), N * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dp, p.data(), P * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(dp, P, DDP_TYPE_OF(dp));
    DDP_GRADIENT(grad, P, DDP_TYPE_OF(grad));
    for (int i = 0; i < steps; ++i) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        size_t at = i * B % N + first;
        bptt<<<1, B>>>(dx + at * T, dy + at, dp, part, loss, n);
        reduce_mean<<<1, P>>>(part, grad, n);
        square_sum<<<1, 1>>>(grad, norm2);
        clip<<<1, P>>>(grad, norm2, 0.5f);
        DDP_STEP(0);
        sgd<<<1, P>>>(dp, grad, 0.2f);
        if (i % 20 == 0) {
            std::vector<float> l(n);
            cudaMemcpy(l.data(), loss, n * 4, cudaMemcpyDeviceToHost);
            float m = 0;
            for (float v : l) m += v / n;
            DDP_MEAN(&m);
            if (DDP_RANK() == 0) printf("iter %d loss %.4f\n", i, m);
        }
    }
    return 0;
}
