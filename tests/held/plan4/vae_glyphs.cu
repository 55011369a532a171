// vae_glyphs.cu - variational autoencoder on 8x8 glyphs: 64 -> 48 -> (8 mean, 8 logvar) -> 48 -> 64.
// RMSprop, KL warm-up, exponential moving average of the weights for sampling.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>
#ifdef ORACLE
#include "oracle.h"
#endif

static inline void check(cudaError_t e, const char* what) {
    if (e != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(e));
}
#define CUDA(call) check(call, #call)

namespace k {
// y[n,out] = x[n,in] W[in,out] + b
__global__ void affine(const float* x, const float* W, const float* b, float* y, int n, int in, int out) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (c >= out || r >= n) return;
    float s = b[c];
    for (int i = 0; i < in; ++i) s += x[r * in + i] * W[i * out + c];
    y[r * out + c] = s;
}
__global__ void affine_dx(const float* dy, const float* W, float* dx, int n, int in, int out) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (c >= in || r >= n) return;
    float s = 0.f;
    for (int j = 0; j < out; ++j) s += dy[r * out + j] * W[c * out + j];
    dx[r * in + c] = s;
}
// row "in" of the grid makes the bias gradient
__global__ void affine_dw(const float* x, const float* dy, float* dW, float* db, int n, int in, int out) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (c >= out) return;
    float s = 0.f;
    if (i < in) { for (int r = 0; r < n; ++r) s += x[r * in + i] * dy[r * out + c]; dW[i * out + c] = s; }
    else { for (int r = 0; r < n; ++r) s += dy[r * out + c]; db[c] = s; }
}
__global__ void relu(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && x[i] < 0.f) x[i] = 0.f; }
__global__ void relu_back(const float* y, float* d, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && y[i] <= 0.f) d[i] = 0.f; }
__global__ void reparam(const float* enc, const float* eps, float* z, int n, int L) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * L) return;
    int r = i / L, j = i % L;
    z[i] = enc[r * 2 * L + j] + expf(0.5f * enc[r * 2 * L + L + j]) * eps[i];
}
__global__ void reparam_back(const float* enc, const float* eps, const float* dz, float* denc, int n, int L, float beta) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * L) return;
    int r = i / L, j = i % L;
    float mu = enc[r * 2 * L + j], lv = enc[r * 2 * L + L + j];
    denc[r * 2 * L + j] = dz[i] + beta * mu / n;
    denc[r * 2 * L + L + j] = dz[i] * eps[i] * 0.5f * expf(0.5f * lv) + beta * 0.5f * (expf(lv) - 1.f) / n;
}
// binary cross entropy on logits; one partial loss a row
__global__ void bce(const float* logit, const float* x, float* d, float* rowloss, const float* enc, int n, int D, int L) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float l = 0.f, kl = 0.f;
    for (int j = 0; j < D; ++j) {
        float z = logit[r * D + j], t = x[r * D + j];
        l += fmaxf(z, 0.f) - z * t + log1pf(expf(-fabsf(z)));
        d[r * D + j] = (1.f / (1.f + expf(-z)) - t) / n;
    }
    for (int j = 0; j < L; ++j) {
        float mu = enc[r * 2 * L + j], lv = enc[r * 2 * L + L + j];
        kl += 0.5f * (expf(lv) + mu * mu - 1.f - lv);
    }
    rowloss[2 * r] = l; rowloss[2 * r + 1] = kl;
}
__global__ void rmsprop(float* w, const float* g, float* s, float* ema, int n, float lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    s[i] = 0.95f * s[i] + 0.05f * g[i] * g[i];
    w[i] -= lr * g[i] / (sqrtf(s[i]) + 1e-5f);
    ema[i] = 0.97f * ema[i] + 0.03f * w[i];
}
}  // namespace k

template <class V> class Buffer {
    V* p_ = nullptr; size_t n_ = 0;
public:
    explicit Buffer(size_t n) : n_(n) { CUDA(cudaMalloc((void**)&p_, n * sizeof(V))); CUDA(cudaMemset(p_, 0, n * sizeof(V))); }
    Buffer(const Buffer&) = delete;
    ~Buffer() { cudaFree(p_); }
    operator V*() const { return p_; }
    size_t size() const { return n_; }
    std::vector<V> host() const { std::vector<V> h(n_); CUDA(cudaMemcpy(h.data(), p_, n_ * sizeof(V), cudaMemcpyDeviceToHost)); return h; }
    void set(const std::vector<V>& h) { CUDA(cudaMemcpy(p_, h.data(), n_ * sizeof(V), cudaMemcpyHostToDevice)); }
};

class Linear {
    int in_, out_; bool relu_;
    const float* x_ = nullptr; int n_ = 0;
public:
    Buffer<float> W, b, dW, db, sW, sb, eW, eb, y, dx;
    Linear(int in, int out, bool relu, int maxn, std::mt19937& g)
        : in_(in), out_(out), relu_(relu), W(in * out), b(out), dW(in * out), db(out), sW(in * out), sb(out), eW(in * out), eb(out),
          y(maxn * out), dx(maxn * in) {
        std::uniform_real_distribution<float> u(-1.f, 1.f);
        float r = sqrtf(6.f / (in + out));
        std::vector<float> h(in * out);
        for (auto& v : h) v = u(g) * r;
        W.set(h); eW.set(h);
#ifdef ORACLE
        oracle::state(W, W.size()); oracle::state(b, b.size()); oracle::state(sW, sW.size()); oracle::state(sb, sb.size());
        oracle::state(eW, eW.size()); oracle::state(eb, eb.size());
        oracle::grad(dW, dW.size()); oracle::grad(db, db.size());
#endif
    }
    float* forward(const float* x, int n) {
        x_ = x; n_ = n;
        k::affine<<<dim3((out_ + 31) / 32, n), 32>>>(x, W, b, y, n, in_, out_);
        if (relu_) k::relu<<<(n * out_ + 127) / 128, 128>>>(y, n * out_);
        return y;
    }
    float* backward(float* dy, bool need_dx = true) {
        if (relu_) k::relu_back<<<(n_ * out_ + 127) / 128, 128>>>(y, dy, n_ * out_);
        k::affine_dw<<<dim3((out_ + 31) / 32, in_ + 1), 32>>>(x_, dy, dW, db, n_, in_, out_);
        if (need_dx) k::affine_dx<<<dim3((in_ + 31) / 32, n_), 32>>>(dy, W, dx, n_, in_, out_);
        return dx;
    }
    void update(float lr) {
        k::rmsprop<<<(W.size() + 127) / 128, 128>>>(W, dW, sW, eW, (int)W.size(), lr);
        k::rmsprop<<<(b.size() + 127) / 128, 128>>>(b, db, sb, eb, (int)b.size(), lr);
    }
};

static std::vector<float> glyphs(int n, std::mt19937& g) {     // crosses, boxes, diagonals, with flipped pixels
    std::vector<float> d(n * 64, 0.f);
    for (int i = 0; i < n; ++i) {
        int kind = g() % 4, a = 1 + g() % 3, s = 3 + g() % 3;
        auto px = [&](int r, int c) { d[i * 64 + (r & 7) * 8 + (c & 7)] = 1.f; };
        for (int t = 0; t < s; ++t) {
            if (kind == 0) { px(a + s / 2, a + t); px(a + t, a + s / 2); }
            else if (kind == 1) { px(a, a + t); px(a + s - 1, a + t); px(a + t, a); px(a + t, a + s - 1); }
            else if (kind == 2) { px(a + t, a + t); px(a + t, a + t + 1); }
            else { px(a + t, 7 - a - t); px(a + t, a); }
        }
        d[i * 64 + g() % 64] = 1.f;
    }
    return d;
}

int main(int argc, char** argv) try {
    const std::string path = argc > 1 ? argv[1] : "model.bin";
    const int D = 64, Hd = 48, L = 8, B = 32, N = 1280, EPOCHS = 3;
    std::mt19937 gen(99);
    std::vector<float> data = glyphs(N, gen);

    Linear enc1(D, Hd, true, B, gen), enc2(Hd, 2 * L, false, B, gen), dec1(L, Hd, true, B, gen), dec2(Hd, D, false, B, gen);
    std::vector<Linear*> net = {&enc1, &enc2, &dec1, &dec2};
    Buffer<float> x(B * D), eps(B * L), z(B * L), dlogit(B * D), denc(B * 2 * L), rowloss(2 * B);
    float *px, *peps, *ploss;                                  // pinned staging
    CUDA(cudaMallocHost((void**)&px, B * D * sizeof(float)));
    CUDA(cudaMallocHost((void**)&peps, B * L * sizeof(float)));
    CUDA(cudaMallocHost((void**)&ploss, 2 * B * sizeof(float)));
    std::mt19937 noise(7);
    std::normal_distribution<float> nd(0.f, 1.f);

    int step = 0, window = 0;
    double rec = 0, kld = 0;
    for (int ep = 0; ep < EPOCHS; ++ep)
        for (int it = 0; it < N / B; ++it) {
#ifdef ORACLE
            oracle::begin();
#endif
            for (int i = 0; i < B * D; ++i) px[i] = data[it * B * D + i];
            for (int i = 0; i < B * L; ++i) peps[i] = nd(noise);
            CUDA(cudaMemcpyAsync(x, px, B * D * sizeof(float), cudaMemcpyHostToDevice, 0));
            CUDA(cudaMemcpyAsync(eps, peps, B * L * sizeof(float), cudaMemcpyHostToDevice, 0));
            float beta = fminf(1.f, step / 60.f);              // KL warm-up
            float* e = enc2.forward(enc1.forward(x, B), B);
            k::reparam<<<(B * L + 127) / 128, 128>>>(e, eps, z, B, L);
            float* logit = dec2.forward(dec1.forward(z, B), B);
            k::bce<<<1, B>>>(logit, x, dlogit, rowloss, e, B, D, L);
            float* dz = dec1.backward(dec2.backward(dlogit));
            k::reparam_back<<<(B * L + 127) / 128, 128>>>(e, eps, dz, denc, B, L, beta);
            enc1.backward(enc2.backward(denc), false);
            float lr = step < 80 ? 2e-3f : 1e-3f;
#ifdef ORACLE
            if (oracle::ready())
#endif
            for (auto* l : net) l->update(lr);
#ifdef ORACLE
            oracle::end();
#endif
            CUDA(cudaMemcpyAsync(ploss, rowloss, 2 * B * sizeof(float), cudaMemcpyDeviceToHost, 0));
            CUDA(cudaStreamSynchronize(0));
            for (int r = 0; r < B; ++r) { rec += ploss[2 * r] / B; kld += ploss[2 * r + 1] / B; }
            ++step;
            if (++window == 20) {
                printf("step %3d  rec %.3f  kl %.3f  beta %.2f\n", step, rec / window, kld / window, beta);
                rec = kld = 0; window = 0;
            }
        }
    CUDA(cudaDeviceSynchronize());
#ifdef ORACLE
    oracle::boundary();
#endif
    std::ofstream f(path, std::ios::binary);
    auto dump = [&](const Buffer<float>& b) { auto h = b.host(); f.write((const char*)h.data(), h.size() * sizeof(float)); };
    for (auto* l : net) { dump(l->W); dump(l->b); }
    for (auto* l : net) { dump(l->eW); dump(l->eb); }          // averaged weights after the raw ones
    cudaFreeHost(px); cudaFreeHost(peps); cudaFreeHost(ploss);
    return 0;
} catch (const std::exception& ex) {
    fprintf(stderr, "%s\n", ex.what());
    return 1;
}
