// One trunk with two heads: a classifier (cross entropy) and a regressor (squared error).
// The two losses are weighted and their gradients meet in the trunk.  SGD with decay.
#include <cuda_runtime.h>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>
#ifdef ORACLE
#include "oracle.h"
#endif

constexpr int NF = 14, NH = 36, NC = 3, NB = 40, NROWS = 720;
constexpr float MIX = 0.5f;

#define CUDA_OK(x) do { auto s_ = (x); if (s_ != cudaSuccess) { std::printf("%s -> %s\n", #x, cudaGetErrorString(s_)); std::exit(1); } } while (0)

struct Batch { const float* x; const int* c; const float* t; };

__global__ void trunk(Batch in, const float* w, const float* b, float* h) {
    int r = blockIdx.x, j = threadIdx.x;
    float s = b[j];
    for (int i = 0; i < NF; ++i) s += in.x[r * NF + i] * w[i * NH + j];
    h[r * NH + j] = s > 0 ? s : expf(s) - 1;          // ELU
}
__global__ void heads(Batch in, const float* h, const float* wc, const float* bc, const float* wr, const float* br,
                      float* dc, float* dr, float2* losses) {
    int r = threadIdx.x;
    float z[NC], m = -1e30f, s = 0, p = *br;
    for (int k = 0; k < NC; ++k) {
        z[k] = bc[k];
        for (int j = 0; j < NH; ++j) z[k] += h[r * NH + j] * wc[j * NC + k];
        m = fmaxf(m, z[k]);
    }
    for (int k = 0; k < NC; ++k) s += expf(z[k] - m);
    for (int k = 0; k < NC; ++k) dc[r * NC + k] = (expf(z[k] - m) / s - (k == in.c[r])) / NB;
    for (int j = 0; j < NH; ++j) p += h[r * NH + j] * wr[j];
    float e = p - in.t[r];
    dr[r] = MIX * 2 * e / NB;
    losses[r] = make_float2(logf(s) + m - z[in.c[r]], e * e);
}
__global__ void head_grads(const float* h, const float* dc, const float* dr, float* gwc, float* gbc, float* gwr, float* gbr) {
    int j = threadIdx.x;
    float sr = 0;
    for (int k = 0; k < NC; ++k) {
        float s = 0, b = 0;
        for (int r = 0; r < NB; ++r) { s += dc[r * NC + k] * h[r * NH + j]; b += dc[r * NC + k]; }
        gwc[j * NC + k] = s;
        if (j == 0) gbc[k] = b;
    }
    for (int r = 0; r < NB; ++r) sr += dr[r] * h[r * NH + j];
    gwr[j] = sr;
    if (j == 0) { float b = 0; for (int r = 0; r < NB; ++r) b += dr[r]; *gbr = b; }
}
__global__ void trunk_grads(Batch in, const float* h, const float* wc, const float* wr, const float* dc, const float* dr, float* gw, float* gb) {
    int j = blockIdx.x, i = threadIdx.x;              // i < NF: weights; i == NF: bias
    float s = 0;
    for (int r = 0; r < NB; ++r) {
        float a = h[r * NH + j], d = dr[r] * wr[j];
        for (int k = 0; k < NC; ++k) d += dc[r * NC + k] * wc[j * NC + k];
        if (a < 0) d *= a + 1;
        s += d * (i < NF ? in.x[r * NF + i] : 1.f);
    }
    if (i < NF) gw[i * NH + j] = s; else gb[j] = s;
}
__global__ void sgd(float* w, const float* g, int n, float lr, float decay) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] = (1 - lr * decay) * w[i] - lr * g[i];
}

int main(int argc, char** argv) {
    std::mt19937 rng(808);
    std::normal_distribution<float> nd;
    std::vector<float> X(NROWS * NF), Tg(NROWS); std::vector<int> C(NROWS);
    for (int r = 0; r < NROWS; ++r) {
        float* x = &X[r * NF];
        for (int i = 0; i < NF; ++i) x[i] = nd(rng);
        float a = x[0] + x[1] - x[2], b = x[3] - x[4];
        C[r] = a > 0.6f ? 0 : b > 0 ? 1 : 2;
        Tg[r] = std::tanh(a) + 0.5f * b + 0.1f * nd(rng);
    }
    const std::vector<std::pair<std::string, int>> names = {{"trunk.w", NF * NH}, {"trunk.b", NH}, {"cls.w", NH * NC}, {"cls.b", NC}, {"reg.w", NH}, {"reg.b", 1}};
    std::unordered_map<std::string, float*> W, G;
    for (auto& [name, n] : names) {
        CUDA_OK(cudaMalloc(&W[name], n * sizeof(float)));
        CUDA_OK(cudaMalloc(&G[name], n * sizeof(float)));
        std::vector<float> h(n, 0.f);
        if (name.back() == 'w') for (float& v : h) v = 0.25f * nd(rng);
        CUDA_OK(cudaMemcpy(W[name], h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
#ifdef ORACLE
        oracle::state(W[name], n); oracle::grad(G[name], n);
#endif
    }
    float *dX, *dT, *h, *dc, *dr; int* dC; float2* losses;
    CUDA_OK(cudaMalloc(&dX, NB * NF * sizeof(float))); CUDA_OK(cudaMalloc(&dT, NB * sizeof(float))); CUDA_OK(cudaMalloc(&dC, NB * sizeof(int)));
    CUDA_OK(cudaMalloc(&h, NB * NH * sizeof(float))); CUDA_OK(cudaMalloc(&dc, NB * NC * sizeof(float))); CUDA_OK(cudaMalloc(&dr, NB * sizeof(float)));
    CUDA_OK(cudaMalloc(&losses, NB * sizeof(float2)));
    std::array<float2, NB> hl;
    for (int epoch = 1; epoch <= 10; ++epoch) {
        double ce = 0, se = 0;
        for (int at = 0; at < NROWS; at += NB) {
            CUDA_OK(cudaMemcpy(dX, &X[at * NF], NB * NF * sizeof(float), cudaMemcpyHostToDevice));
            CUDA_OK(cudaMemcpy(dC, &C[at], NB * sizeof(int), cudaMemcpyHostToDevice));
            CUDA_OK(cudaMemcpy(dT, &Tg[at], NB * sizeof(float), cudaMemcpyHostToDevice));
            Batch in{dX, dC, dT};
#ifdef ORACLE
            oracle::begin();
#endif
            trunk<<<NB, NH>>>(in, W["trunk.w"], W["trunk.b"], h);
            heads<<<1, NB>>>(in, h, W["cls.w"], W["cls.b"], W["reg.w"], W["reg.b"], dc, dr, losses);
            head_grads<<<1, NH>>>(h, dc, dr, G["cls.w"], G["cls.b"], G["reg.w"], G["reg.b"]);
            trunk_grads<<<NH, NF + 1>>>(in, h, W["cls.w"], W["reg.w"], dc, dr, G["trunk.w"], G["trunk.b"]);
#ifdef ORACLE
            if (oracle::ready())
#endif
            for (auto& [name, n] : names) sgd<<<(n + 127) / 128, 128>>>(W[name], G[name], n, 0.15f, 1e-3f);
#ifdef ORACLE
            oracle::end();
#endif
            CUDA_OK(cudaMemcpy(hl.data(), losses, sizeof hl, cudaMemcpyDeviceToHost));
            float a = 0, b = 0;
            for (float2 l : hl) { a += l.x / NB; b += l.y / NB; }
            ce += a; se += b;
            if (at == 0) std::printf("epoch %d first batch: class %.4f, value %.4f, sum %.4f\n", epoch, a, b, a + MIX * b);
        }
        std::printf("epoch %d: class loss %.4f, value loss %.4f\n", epoch, ce * NB / NROWS, se * NB / NROWS);
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    FILE* f = std::fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) return 1;
    for (auto& [name, n] : names) {
        std::vector<float> v(n);
        CUDA_OK(cudaMemcpy(v.data(), W[name], n * sizeof(float), cudaMemcpyDeviceToHost));
        std::fwrite(v.data(), sizeof(float), n, f);
    }
    std::fclose(f);
}
