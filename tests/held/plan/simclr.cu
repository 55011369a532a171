// Contrastive learning of points (SimCLR-like): two noisy views of each example, a small
// encoder, unit vectors, and the NT-Xent loss over the 2n views of a batch.  LARS-free Adam.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#ifdef ORACLE
#include "oracle.h"
#endif

constexpr int DIN = 16, DH = 32, DZ = 8, PAIRS = 16, V = 2 * PAIRS;
constexpr float TEMP = 0.3f;

struct Tensor {
    float* data = nullptr; int n = 0;
    static Tensor zeros(int n) { Tensor t; t.n = n; if (cudaMalloc(&t.data, n * sizeof(float)) != cudaSuccess) { std::puts("no memory"); std::exit(1); } cudaMemset(t.data, 0, n * sizeof(float)); return t; }
    operator float*() const { return data; }
};

// view noise from a counter hash: the same for the same (batch, element)
__device__ float hash_noise(uint32_t a, uint32_t b) {
    uint32_t x = a * 0x9E3779B9u ^ (b + 0x85EBCA6Bu) * 0xC2B2AE35u, s = 0;
    for (int i = 0; i < 3; ++i) { x ^= x >> 16; x *= 0x7FEB352Du; x ^= x >> 15; x *= 0x846CA68Bu; x ^= x >> 16; s += x >> 10; }
    return (s / 4194304.f - 1.5f) * 2.f;
}
__global__ void make_views(const float* data, const int* idx, float* views, uint32_t batch) {
    int v = blockIdx.x, j = threadIdx.x;
    views[v * DIN + j] = data[idx[v % PAIRS] * DIN + j] + 0.45f * hash_noise(batch, v * DIN + j);
}
__global__ void linear(const float* x, const float* w, const float* b, float* y, int in, int out, bool relu) {
    int r = blockIdx.x, c = threadIdx.x;
    float s = b[c];
    for (int i = 0; i < in; ++i) s += x[r * in + i] * w[i * out + c];
    y[r * out + c] = relu && s < 0 ? 0 : s;
}
__global__ void normalise(const float* z, float* u, float* len) {
    int r = threadIdx.x;
    float s = 1e-8f;
    for (int k = 0; k < DZ; ++k) s += z[r * DZ + k] * z[r * DZ + k];
    s = sqrtf(s); len[r] = s;
    for (int k = 0; k < DZ; ++k) u[r * DZ + k] = z[r * DZ + k] / s;
}
// row i of the similarity softmax without the diagonal; S = p - target
__global__ void nt_xent(const float* u, float* S, float* loss) {
    int i = threadIdx.x, pos = (i + PAIRS) % V;
    float m = -1e30f, s = 0;
    for (int j = 0; j < V; ++j) {
        float d = 0;
        for (int k = 0; k < DZ; ++k) d += u[i * DZ + k] * u[j * DZ + k];
        S[i * V + j] = d / TEMP;
        if (j != i) m = fmaxf(m, d / TEMP);
    }
    for (int j = 0; j < V; ++j) if (j != i) s += expf(S[i * V + j] - m);
    loss[i] = logf(s) + m - S[i * V + pos];
    for (int j = 0; j < V; ++j) S[i * V + j] = j == i ? 0 : (expf(S[i * V + j] - m) / s - (j == pos)) / (TEMP * V);
}
__global__ void sim_back(const float* u, const float* S, const float* len, float* dz) {
    int i = threadIdx.x;
    float g[DZ], dot = 0;
    for (int k = 0; k < DZ; ++k) {
        g[k] = 0;
        for (int j = 0; j < V; ++j) g[k] += (S[i * V + j] + S[j * V + i]) * u[j * DZ + k];
        dot += g[k] * u[i * DZ + k];
    }
    for (int k = 0; k < DZ; ++k) dz[i * DZ + k] = (g[k] - dot * u[i * DZ + k]) / len[i];
}
__global__ void grad_w(const float* x, const float* dy, float* gw, float* gb, int in, int out) {
    int i = blockIdx.x, c = threadIdx.x;
    float s = 0, t = 0;
    for (int r = 0; r < V; ++r) { s += x[r * in + i] * dy[r * out + c]; t += dy[r * out + c]; }
    gw[i * out + c] = s;
    if (i == 0) gb[c] = t;
}
__global__ void grad_h(const float* dz, const float* w, const float* h, float* dh) {
    int r = blockIdx.x, i = threadIdx.x;
    float s = 0;
    for (int k = 0; k < DZ; ++k) s += dz[r * DZ + k] * w[i * DZ + k];
    dh[r * DH + i] = h[r * DH + i] > 0 ? s : 0;
}
// one launch for all four tensors; the step number lives on the device
struct AdamArgs { float *w[4], *g[4], *m[4], *v[4]; int n[4]; };
__global__ void adam_all(AdamArgs a, const int* t, float lr) {
    int k = blockIdx.x;
    float c1 = 1 - powf(0.9f, *t), c2 = 1 - powf(0.99f, *t);
    for (int i = threadIdx.x; i < a.n[k]; i += blockDim.x) {
        float g = a.g[k][i];
        float m = a.m[k][i] = 0.9f * a.m[k][i] + 0.1f * g;
        float v = a.v[k][i] = 0.99f * a.v[k][i] + 0.01f * g * g;
        a.w[k][i] -= lr * (m / c1) / (sqrtf(v / c2) + 1e-7f);
    }
}
__global__ void tick(int* t) { ++*t; }

int main(int argc, char** argv) {
    std::mt19937 rng(64);
    std::normal_distribution<float> nd;
    const int N = 384;
    std::vector<float> data(N * DIN);
    float centres[12][DIN];
    for (auto& c : centres) for (float& v : c) v = nd(rng);
    for (int i = 0; i < N; ++i) for (int j = 0; j < DIN; ++j) data[i * DIN + j] = centres[i % 12][j] + 0.5f * nd(rng);
    Tensor dData = Tensor::zeros(N * DIN), views = Tensor::zeros(V * DIN), h = Tensor::zeros(V * DH), z = Tensor::zeros(V * DZ), u = Tensor::zeros(V * DZ);
    Tensor len = Tensor::zeros(V), S = Tensor::zeros(V * V), loss = Tensor::zeros(V), dz = Tensor::zeros(V * DZ), dh = Tensor::zeros(V * DH);
    cudaMemcpy(dData, data.data(), data.size() * 4, cudaMemcpyHostToDevice);
    AdamArgs a;
    const int size[4] = {DIN * DH, DH, DH * DZ, DZ};
    for (int k = 0; k < 4; ++k) {
        a.n[k] = size[k];
        a.w[k] = Tensor::zeros(size[k]); a.g[k] = Tensor::zeros(size[k]); a.m[k] = Tensor::zeros(size[k]); a.v[k] = Tensor::zeros(size[k]);
        std::vector<float> w(size[k], 0.f);
        if (k % 2 == 0) for (float& x : w) x = nd(rng) / std::sqrt(k ? (float)DH : (float)DIN);
        cudaMemcpy(a.w[k], w.data(), size[k] * 4, cudaMemcpyHostToDevice);
#ifdef ORACLE
        oracle::state(a.w[k], size[k]); oracle::state(a.m[k], size[k]); oracle::state(a.v[k], size[k]); oracle::grad(a.g[k], size[k]);
#endif
    }
    int *idx, *t;
    cudaMalloc(&idx, PAIRS * sizeof(int)); cudaMalloc(&t, sizeof(int)); cudaMemset(t, 0, sizeof(int));
    std::vector<int> order(N);
    for (int i = 0; i < N; ++i) order[i] = i;
    uint32_t batch = 0;
    float avg = 0, hl[V];
    for (int epoch = 0; epoch < 7; ++epoch) {
        for (int i = N - 1; i > 0; --i) std::swap(order[i], order[rng() % (i + 1)]);
        for (int at = 0; at < N; at += PAIRS, ++batch) {
            cudaMemcpy(idx, &order[at], PAIRS * sizeof(int), cudaMemcpyHostToDevice);
#ifdef ORACLE
            oracle::begin();
            { int now = oracle::step((int)batch + 1) - 1; cudaMemcpy(t, &now, sizeof now, cudaMemcpyHostToDevice); }
#endif
            make_views<<<V, DIN>>>(dData, idx, views, batch);
            linear<<<V, DH>>>(views, a.w[0], a.w[1], h, DIN, DH, true);
            linear<<<V, DZ>>>(h, a.w[2], a.w[3], z, DH, DZ, false);
            normalise<<<1, V>>>(z, u, len);
            nt_xent<<<1, V>>>(u, S, loss);
            sim_back<<<1, V>>>(u, S, len, dz);
            grad_w<<<DH, DZ>>>(h, dz, a.g[2], a.g[3], DH, DZ);
            grad_h<<<V, DH>>>(dz, a.w[2], h, dh);
            grad_w<<<DIN, DH>>>(views, dh, a.g[0], a.g[1], DIN, DH);
            tick<<<1, 1>>>(t);
#ifdef ORACLE
            if (oracle::ready())
#endif
            adam_all<<<4, 128>>>(a, t, 0.005f);
#ifdef ORACLE
            oracle::end();
#endif
            cudaMemcpy(hl, loss, sizeof hl, cudaMemcpyDeviceToHost);
            float l = 0;
            for (float v : hl) l += v / V;
            avg += l;
            if (batch % 10 == 9) { std::printf("batch %u  nt-xent %.5f  last ten %.5f\n", batch + 1, l, avg / 10); avg = 0; }
        }
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    FILE* f = std::fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) return 1;
    for (int k = 0; k < 4; ++k) {
        std::vector<float> w(size[k]);
        cudaMemcpy(w.data(), a.w[k], size[k] * 4, cudaMemcpyDeviceToHost);
        std::fwrite(w.data(), 4, size[k], f);
    }
    std::fclose(f);
    return 0;
}
