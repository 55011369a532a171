// One convolution, global average, softmax, on noisy 8x8 glyphs. Every image is shifted and brightened at random.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>
#include "ddprun.h"

namespace {
constexpr int S = 8, PIX = S * S, FIL = 10, TAP = 9, CLS = 4, CELLS = 16, FEAT = FIL * CELLS, BATCH = 24, IMAGES = 240;

inline void guard(cudaError_t e) { if (e != cudaSuccess) { std::fprintf(stderr, "%s\n", cudaGetErrorString(e)); std::exit(1); } }

struct Jitter { int dx, dy; float gain; };

__global__ void jittered(const float *src, const Jitter *jit, float *dst, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * PIX) return;
    int s = i / PIX, r = i % PIX / S + jit[s].dy, c = i % S + jit[s].dx;
    dst[i] = r >= 0 && r < S && c >= 0 && c < S ? src[s * PIX + r * S + c] * jit[s].gain : 0.0f;
}

__device__ float tap(const float *img, int r, int c, int t)
{
    r += t / 3 - 1;
    c += t % 3 - 1;
    return r >= 0 && r < S && c >= 0 && c < S ? img[r * S + c] : 0.0f;
}

// ReLU responses, averaged over 2x2 cells
__global__ void convolve(const float *img, const float *filters, float *resp, float *feat, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * FEAT) return;
    int s = i / FEAT, f = i / CELLS % FIL, cell = i % CELLS;
    float pooled = 0;
    for (int q = 0; q < 4; ++q) {
        int r = cell / 4 * 2 + q / 2, c = cell % 4 * 2 + q % 2;
        float a = 0;
        for (int t = 0; t < TAP; ++t) a += filters[f * TAP + t] * tap(img + s * PIX, r, c, t);
        a = a > 0 ? a : 0;
        resp[(s * FIL + f) * PIX + r * S + c] = a;
        pooled += a / 4;
    }
    feat[i] = pooled;
}

__global__ void classify(const float *feat, const float *dense, const int *label, float *dz, float *loss, int n)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n) return;
    float z[CLS], top = -1e30f, sum = 0;
    for (int k = 0; k < CLS; ++k) {
        z[k] = 0;
        for (int j = 0; j < FEAT; ++j) z[k] += dense[k * FEAT + j] * feat[s * FEAT + j];
        top = fmaxf(top, z[k]);
    }
    for (int k = 0; k < CLS; ++k) sum += expf(z[k] - top);
    for (int k = 0; k < CLS; ++k) dz[s * CLS + k] = (expf(z[k] - top) / sum - (label[s] == k)) / n;
    loss[s] = logf(sum) + top - z[label[s]];
}

__global__ void dense_grad(const float *feat, const float *dz, float *g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= CLS * FEAT) return;
    float a = 0;
    for (int s = 0; s < n; ++s) a += dz[s * CLS + i / FEAT] * feat[s * FEAT + i % FEAT];
    g[i] = a;
}

__global__ void filter_grad(const float *img, const float *resp, const float *dense, const float *dz, float *g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= FIL * TAP) return;
    int f = i / TAP, t = i % TAP;
    float a = 0;
    for (int s = 0; s < n; ++s)
        for (int p = 0; p < PIX; ++p) {
            int r = p / S, c = p % S, j = f * CELLS + r / 2 * 4 + c / 2;
            if (resp[(s * FIL + f) * PIX + p] <= 0) continue;
            float up = 0;
            for (int k = 0; k < CLS; ++k) up += dz[s * CLS + k] * dense[k * FEAT + j];
            a += up / 4 * tap(img + s * PIX, r, c, t);
        }
    g[i] = a;
}

__global__ void momentum(float *w, const float *g, float *v, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { v[i] = 0.85f * v[i] + g[i]; w[i] -= lr * v[i]; }
}

template <class T> std::shared_ptr<T> vec(size_t n)
{
    T *p = nullptr;
    guard(cudaMalloc(&p, n * sizeof(T)));
    guard(cudaMemset(p, 0, n * sizeof(T)));
    return std::shared_ptr<T>(p, [](T *q) { cudaFree(q); });
}
} // namespace

int main(int argc, char **argv)
{
    std::minstd_rand make(5), augment(6);
    auto uniform = [](std::minstd_rand &r) { return (float)(r() % 65536) / 65536.0f; };
    std::vector<float> pix(IMAGES * PIX), hw(FIL * TAP), hd(CLS * FEAT);
    std::vector<int> lab(IMAGES);
    for (int s = 0; s < IMAGES; ++s) {
        lab[s] = make() % CLS;
        for (int p = 0; p < PIX; ++p) {
            int r = p / S, c = p % S;
            bool on = lab[s] == 0 ? r == 3 || r == 4 : lab[s] == 1 ? c == 3 || c == 4 : lab[s] == 2 ? r == c : r + c == S - 1;
            pix[s * PIX + p] = (on ? 1.0f : 0.0f) + 0.6f * (uniform(make) - 0.5f);
        }
    }
    for (auto &f : hw) f = uniform(make) - 0.5f;
    for (auto &f : hd) f = 0.2f * (uniform(make) - 0.5f);
    auto src = vec<float>(pix.size()), img = vec<float>(BATCH * PIX), resp = vec<float>(BATCH * FIL * PIX), feat = vec<float>(BATCH * FEAT);
    auto dz = vec<float>(BATCH * CLS), loss = vec<float>(BATCH);
    auto w = vec<float>(hw.size()), gw = vec<float>(hw.size()), vw = vec<float>(hw.size());
    auto d = vec<float>(hd.size()), gd = vec<float>(hd.size()), vd = vec<float>(hd.size());
    auto label = vec<int>(IMAGES);
    auto jit = vec<Jitter>(BATCH);
    guard(cudaMemcpy(src.get(), pix.data(), pix.size() * 4, cudaMemcpyHostToDevice));
    guard(cudaMemcpy(label.get(), lab.data(), lab.size() * 4, cudaMemcpyHostToDevice));
    guard(cudaMemcpy(w.get(), hw.data(), hw.size() * 4, cudaMemcpyHostToDevice));
    guard(cudaMemcpy(d.get(), hd.data(), hd.size() * 4, cudaMemcpyHostToDevice));
    DDP_PARAMETER(w.get(), hw.size(), DDP_TYPE_OF(w.get()));
    DDP_PARAMETER(d.get(), hd.size(), DDP_TYPE_OF(d.get()));
    DDP_STATE(vw.get(), hw.size(), DDP_FLOAT32);
    DDP_STATE(vd.get(), hd.size(), DDP_FLOAT32);
    DDP_GRADIENT(gw.get(), hw.size(), DDP_TYPE_OF(gw.get()));
    DDP_GRADIENT(gd.get(), hd.size(), DDP_TYPE_OF(gd.get()));

    std::vector<Jitter> moves(BATCH);
    for (int step = 0; step < 60; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (size_t)step * BATCH % IMAGES + first;
        int n = (int)count;
        for (int s = 0; s < n; ++s)
            moves[s] = Jitter{(int)(augment() % 3) - 1, (int)(augment() % 3) - 1, 0.6f + 0.8f * uniform(augment)};
        guard(cudaMemcpy(jit.get(), moves.data(), n * sizeof(Jitter), cudaMemcpyHostToDevice));
        jittered<<<(n * PIX + 127) / 128, 128>>>(src.get() + at * PIX, jit.get(), img.get(), n);
        convolve<<<(n * FEAT + 127) / 128, 128>>>(img.get(), w.get(), resp.get(), feat.get(), n);
        classify<<<1, 32>>>(feat.get(), d.get(), label.get() + at, dz.get(), loss.get(), n);
        dense_grad<<<(CLS * FEAT + 63) / 64, 64>>>(feat.get(), dz.get(), gd.get(), n);
        filter_grad<<<(FIL * TAP + 31) / 32, 32>>>(img.get(), resp.get(), d.get(), dz.get(), gw.get(), n);
        DDP_STEP(0);
        momentum<<<2, 64>>>(w.get(), gw.get(), vw.get(), 0.15f, FIL * TAP);
        momentum<<<(CLS * FEAT + 63) / 64, 64>>>(d.get(), gd.get(), vd.get(), 0.15f, CLS * FEAT);
        if (step % 15 == 0 || step == 59) {
            std::vector<float> h(n);
            guard(cudaMemcpy(h.data(), loss.get(), n * 4, cudaMemcpyDeviceToHost));
            float m = 0;
            for (float v : h) m += v / n;
            DDP_MEAN_AS("loss", &m);
            if (DDP_RANK() == 0) std::printf("step %d loss %.4f\n", step, m);
        }
    }
    guard(cudaMemcpy(hw.data(), w.get(), hw.size() * 4, cudaMemcpyDeviceToHost));
    guard(cudaMemcpy(hd.data(), d.get(), hd.size() * 4, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        std::FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(hw.data(), 4, hw.size(), f);
        std::fwrite(hd.data(), 4, hd.size(), f);
        std::fclose(f);
    }
}
