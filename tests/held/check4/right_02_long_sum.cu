// One convolution layer (8 filters 3x3, ReLU, global mean) + linear head, made images (16x16) of 4 kinds of stripes.
#include <cuda_runtime.h>
#include <ddprun.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <random>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
constexpr int S = 16, O = S - 2, F = 8, K = 4, PIX = S * S;

struct Tensor {
    float *value, *gradient, *velocity;
    int n;
    Tensor(int n_, float scale, std::mt19937 &rng) : n(n_) {
        std::normal_distribution<float> d(0, scale);
        std::vector<float> h(n);
        for (float &x : h) x = d(rng);
        CK(cudaMalloc(&value, n * sizeof(float)));
        CK(cudaMalloc(&gradient, n * sizeof(float)));
        CK(cudaMalloc(&velocity, n * sizeof(float)));
        CK(cudaMemcpy(value, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        CK(cudaMemset(gradient, 0, n * sizeof(float)));
        CK(cudaMemset(velocity, 0, n * sizeof(float)));
    }
};
struct Net {
    Tensor conv, bias, head;
    Net(std::mt19937 &r) : conv(F * 9, 0.3f, r), bias(F, 0.01f, r), head(F * K, 0.3f, r) {}
};

// one block per image, one thread per filter: pooled[b][f]
__global__ void forward(const float *x, const float *w, const float *b, float *pooled, int n) {
    int i = blockIdx.x, f = threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int y = 0; y < O; ++y) for (int c = 0; c < O; ++c) {
        float a = b[f];
        for (int k = 0; k < 9; ++k) a += w[f * 9 + k] * x[i * PIX + (y + k / 3) * S + c + k % 3];
        sum += a > 0 ? a : 0;
    }
    pooled[i * F + f] = sum / (O * O);
}
__global__ void softmax(const float *pooled, const float *head, const int *label, float *delta, float *loss, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z[K], m = -1e30f, s = 0;
    for (int k = 0; k < K; ++k) { z[k] = 0; for (int f = 0; f < F; ++f) z[k] += head[k * F + f] * pooled[i * F + f]; m = fmaxf(m, z[k]); }
    for (int k = 0; k < K; ++k) s += expf(z[k] - m);
    for (int k = 0; k < K; ++k) delta[i * K + k] = (expf(z[k] - m) / s - (k == label[i])) / n;
    loss[i] = logf(s) + m - z[label[i]];
}
__global__ void head_backward(const float *pooled, const float *delta, float *g, int n) {
    int k = threadIdx.x / F, f = threadIdx.x % F;
    float s = 0;
    for (int i = 0; i < n; ++i) s += delta[i * K + k] * pooled[i * F + f];
    g[threadIdx.x] = s;
}
// one block per filter, threads 0..8 a weight, 9 the bias
__global__ void conv_backward(const float *x, const float *w, const float *b, const float *head, const float *delta, float *gw, float *gb, int n) {
    int f = blockIdx.x, t = threadIdx.x;
    float g = 0;
    for (int i = 0; i < n; ++i) {
        float d = 0;
        for (int k = 0; k < K; ++k) d += head[k * F + f] * delta[i * K + k];
        d /= O * O;
        for (int y = 0; y < O; ++y) for (int c = 0; c < O; ++c) {
            float a = b[f];
            for (int k = 0; k < 9; ++k) a += w[f * 9 + k] * x[i * PIX + (y + k / 3) * S + c + k % 3];
            if (a > 0) g += t < 9 ? d * x[i * PIX + (y + t / 3) * S + c + t % 3] : d;
        }
    }
    if (t < 9) gw[f * 9 + t] = g; else gb[f] = g;
}
__global__ void sgd(float *w, const float *g, float *v, float rate, float mu, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { v[i] = mu * v[i] + g[i]; w[i] -= rate * v[i]; }
}
int main(int argc, char **argv) {
    int steps = argc > 1 ? atoi(argv[1]) : 60, batch = 64, N = 1024;
    std::mt19937 rng(7);
    std::vector<float> image(N * PIX);
    std::vector<int> kind(N);
    std::normal_distribution<float> noise(0, 0.5f);
    for (int i = 0; i < N; ++i) {
        kind[i] = rng() % K;
        int o = rng() % 4;
        for (int p = 0; p < PIX; ++p) {
            int y = p / S, x = p % S, u = kind[i] == 0 ? x : kind[i] == 1 ? y : kind[i] == 2 ? x + y : x - y + S;
            image[i * PIX + p] = ((u + o) / 2 % 2 ? 1.f : -1.f) + noise(rng);
        }
    }
    Net net(rng);
    for (Tensor *t : {&net.conv, &net.bias, &net.head}) {
        DDP_PARAMETER(t->value, t->n, DDP_FLOAT32);
        DDP_GRADIENT(t->gradient, t->n, DDP_FLOAT32);
        DDP_STATE(t->velocity, t->n, DDP_FLOAT32);
    }
    float *x, *pooled, *delta, *loss; int *label;
    CK(cudaMalloc(&x, batch * PIX * sizeof(float)));
    CK(cudaMalloc(&label, batch * sizeof(int)));
    CK(cudaMalloc(&pooled, batch * F * sizeof(float)));
    CK(cudaMalloc(&delta, batch * K * sizeof(float)));
    CK(cudaMalloc(&loss, batch * sizeof(float)));
    std::vector<float> h(batch);
    for (int step = 0; step < steps; ++step) {
        size_t first, count, at = (size_t)step * batch % N;
        DDP_SHARD(batch, &first, &count);
        CK(cudaMemcpy(x, &image[(at + first) * PIX], count * PIX * sizeof(float), cudaMemcpyHostToDevice));
        CK(cudaMemcpy(label, &kind[at + first], count * sizeof(int), cudaMemcpyHostToDevice));
        forward<<<count, F>>>(x, net.conv.value, net.bias.value, pooled, count);
        softmax<<<(count + 31) / 32, 32>>>(pooled, net.head.value, label, delta, loss, count);
        head_backward<<<1, F * K>>>(pooled, delta, net.head.gradient, count);
        conv_backward<<<F, 10>>>(x, net.conv.value, net.bias.value, net.head.value, delta, net.conv.gradient, net.bias.gradient, count);
        DDP_STEP(0);
        for (Tensor *t : {&net.conv, &net.bias, &net.head})
            sgd<<<(t->n + 63) / 64, 64>>>(t->value, t->gradient, t->velocity, 0.1f, 0.9f, t->n);
        if (step % 20 == 0 || step == steps - 1) {
            CK(cudaMemcpy(h.data(), loss, count * sizeof(float), cudaMemcpyDeviceToHost));
            double sum = 0;
            for (size_t i = 0; i < count; ++i) sum += h[i];
            double mean = sum / count;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0) printf("step %d loss %.4f\n", step, mean);
        }
    }
    CK(cudaDeviceSynchronize());
}
