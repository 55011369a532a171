// A small GAN: the generator learns points on a ring of eight blobs.
// Both nets are 3-layer perceptrons; each keeps its own Adam state.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <random>
#include <string>
#include <vector>
#include <cuda_runtime.h>
#ifdef ORACLE
#include "oracle.h"
static int oraclePhase;   // 0: the discriminator, 1: the generator
#endif

static const int NB = 64, ZD = 8, HD = 32;

static float* devAlloc(int n) {
    float* p = nullptr;
    if (cudaMalloc((void**)&p, n * sizeof(float)) != cudaSuccess) { fprintf(stderr, "out of memory\n"); exit(1); }
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

// y = x W + b, W [in][out]
__global__ void linearK(const float* x, const float* W, const float* b, float* y, int rows, int in, int out) {
    int c = threadIdx.x, r = blockIdx.x;
    if (c >= out || r >= rows) return;
    float s = b[c];
    for (int i = 0; i < in; i++) s += x[r * in + i] * W[i * out + c];
    y[r * out + c] = s;
}
__global__ void leakyK(const float* z, float* a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] = z[i] > 0 ? z[i] : 0.2f * z[i]; }
__global__ void leakyGradK(const float* z, float* d, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && z[i] <= 0) d[i] *= 0.2f; }
// gradients are added up, so that the real and the made batch can share them
__global__ void linearGradK(const float* x, const float* dy, float* gW, float* gb, int rows, int in, int out) {
    int c = threadIdx.x, i = blockIdx.x;
    if (c >= out) return;
    float s = 0;
    for (int r = 0; r < rows; r++) s += (i < in ? x[r * in + i] : 1.f) * dy[r * out + c];
    if (i < in) gW[i * out + c] += s; else gb[c] += s;
}
__global__ void linearBackK(const float* dy, const float* W, float* dx, int in, int out) {
    int r = blockIdx.x, i = threadIdx.x;
    if (i >= in) return;
    float s = 0;
    for (int c = 0; c < out; c++) s += dy[r * out + c] * W[i * out + c];
    dx[r * in + i] = s;
}
// binary cross entropy with logits against one target value
__global__ void bceK(const float* z, float target, float* dz, float* loss, int rows) {
    int r = threadIdx.x;
    if (r >= rows) return;
    float p = 1.f / (1.f + expf(-z[r]));
    dz[r] = (p - target) / rows;
    loss[r] = fmaxf(z[r], 0.f) - z[r] * target + log1pf(expf(-fabsf(z[r])));
}
__global__ void adamK(float* w, const float* g, float* m, float* v, int n, float lr, int t) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.5f * m[i] + 0.5f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    w[i] -= lr * (m[i] / (1 - powf(0.5f, t))) / (sqrtf(v[i] / (1 - powf(0.99f, t))) + 1e-8f);
}

struct Layer {
    int in, out, n;
    float *w, *g, *m, *v;     // weights then bias
    void create(int i, int o, std::mt19937& gen) {
        in = i; out = o; n = i * o + o;
        w = devAlloc(n); g = devAlloc(n); m = devAlloc(n); v = devAlloc(n);
        std::normal_distribution<float> d(0, sqrtf(1.5f / i));
        std::vector<float> h(n, 0.f);
        for (int k = 0; k < i * o; k++) h[k] = d(gen);
        cudaMemcpy(w, h.data(), n * 4, cudaMemcpyHostToDevice);
#ifdef ORACLE
        oracle::state(w, n); oracle::state(m, n); oracle::state(v, n); oracle::grad(g, n, oraclePhase);
#endif
    }
};

struct Net {
    Layer L[3];
    float *z[3], *a[3], *d[3], *dx;
    void create(int in, int out, std::mt19937& gen) {
        L[0].create(in, HD, gen); L[1].create(HD, HD, gen); L[2].create(HD, out, gen);
        for (int i = 0; i < 3; i++) { z[i] = devAlloc(NB * L[i].out); a[i] = devAlloc(NB * L[i].out); d[i] = devAlloc(NB * L[i].out); }
        dx = devAlloc(NB * in);
    }
    float* forward(const float* x) {
        for (int i = 0; i < 3; i++) {
            linearK<<<NB, 32>>>(i ? a[i - 1] : x, L[i].w, L[i].w + L[i].in * L[i].out, z[i], NB, L[i].in, L[i].out);
            if (i < 2) leakyK<<<NB, L[i].out>>>(z[i], a[i], NB * L[i].out);
        }
        return z[2];
    }
    void zeroGrad() { for (Layer& l : L) cudaMemset(l.g, 0, l.n * 4); }
    // d[2] is filled by the caller; leaves the gradient of the input in dx
    void backward(const float* x, bool wantParams) {
        for (int i = 2; i >= 0; i--) {
            if (i < 2) leakyGradK<<<NB, L[i].out>>>(z[i], d[i], NB * L[i].out);
            if (wantParams) linearGradK<<<L[i].in + 1, 32>>>(i ? a[i - 1] : x, d[i], L[i].g, L[i].g + L[i].in * L[i].out, NB, L[i].in, L[i].out);
            linearBackK<<<NB, 32>>>(d[i], L[i].w, i ? d[i - 1] : dx, L[i].in, L[i].out);
        }
    }
    void adam(float lr, int t) { for (Layer& l : L) adamK<<<(l.n + 127) / 128, 128>>>(l.w, l.g, l.m, l.v, l.n, lr, t); }
    void save(FILE* f) {
        for (Layer& l : L) { std::vector<float> h(l.n); cudaMemcpy(h.data(), l.w, l.n * 4, cudaMemcpyDeviceToHost); fwrite(h.data(), 4, l.n, f); }
    }
};

Net G, Dn;
float *dReal, *dNoise, *dLoss;

static float meanLoss() {
    std::vector<float> h(NB);
    cudaMemcpy(h.data(), dLoss, NB * 4, cudaMemcpyDeviceToHost);
    float s = 0; for (float v : h) s += v / NB;
    return s;
}
static float dGradients(const float* real, const float* noise) {
    cudaMemcpy(dReal, real, NB * 2 * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dNoise, noise, NB * ZD * 4, cudaMemcpyHostToDevice);
    Dn.zeroGrad();
    bceK<<<1, NB>>>(Dn.forward(dReal), 1.f, Dn.d[2], dLoss, NB);
    float l = meanLoss();
    Dn.backward(dReal, true);
    float* fake = G.forward(dNoise);
    bceK<<<1, NB>>>(Dn.forward(fake), 0.f, Dn.d[2], dLoss, NB);
    l += meanLoss();
    Dn.backward(fake, true);
    return l;
}
static float gGradients(const float* noise) {
    cudaMemcpy(dNoise, noise, NB * ZD * 4, cudaMemcpyHostToDevice);
    G.zeroGrad();
    float* fake = G.forward(dNoise);
    bceK<<<1, NB>>>(Dn.forward(fake), 1.f, Dn.d[2], dLoss, NB);
    float l = meanLoss();
    Dn.backward(fake, false);
    cudaMemcpy(G.d[2], Dn.dx, NB * 2 * 4, cudaMemcpyDeviceToDevice);
    G.backward(dNoise, true);
    return l;
}

// mean distance of made points from the unit circle, always with the same noise
static float ringDistance() {
    std::mt19937 gen(1);
    std::normal_distribution<float> nd(0, 1);
    std::vector<float> z(NB * ZD), pts(NB * 2);
    for (float& v : z) v = nd(gen);
    cudaMemcpy(dNoise, z.data(), z.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(pts.data(), G.forward(dNoise), NB * 2 * 4, cudaMemcpyDeviceToHost);
    float e = 0;
    for (int i = 0; i < NB; i++) e += fabsf(sqrtf(pts[2 * i] * pts[2 * i] + pts[2 * i + 1] * pts[2 * i + 1]) - 1.f) / NB;
    return e;
}

int main(int argc, char** argv) {
    std::mt19937 gen(2024);
    std::normal_distribution<float> nd(0, 1);
    #ifdef ORACLE
    oraclePhase = 1;
#endif
    G.create(ZD, 2, gen);
#ifdef ORACLE
    oraclePhase = 0;
#endif
    Dn.create(2, 1, gen);
    dReal = devAlloc(NB * 2); dNoise = devAlloc(NB * ZD); dLoss = devAlloc(NB);
    std::vector<float> real(NB * 2), z1(NB * ZD), z2(NB * ZD);
    auto sample = [&] {
        for (int i = 0; i < NB; i++) {
            float t = (gen() % 8) * 0.785398f;
            real[2 * i] = cosf(t) + 0.05f * nd(gen); real[2 * i + 1] = sinf(t) + 0.05f * nd(gen);
        }
        for (float& v : z1) v = nd(gen);
        for (float& v : z2) v = nd(gen);
    };
    const int STEPS = 240;
    const float LR = 0.003f;
    printf("mean distance from the ring %.4f\n", ringDistance());
#ifdef ORACLE
    if (!oracle::by_state()) {
        // gradients: the N batches move D together, and then G together
        int n = oracle::N();
        std::vector<std::vector<float>> R(n), A(n), Bz(n); std::vector<float> ld(n), lg(n);
        for (int t = 1; t <= STEPS; t += n) {
            int have = 0;
            for (; have < n && t + have <= STEPS; have++) { sample(); R[have] = real; A[have] = z1; Bz[have] = z2; }
            if (have == n) {
                int k = oracle::step(t + n - 1);
                for (int i = 0; i < n; i++) { ld[i] = dGradients(R[i].data(), A[i].data()); if (oracle::ready(0)) Dn.adam(LR, k); }
                for (int i = 0; i < n; i++) { lg[i] = gGradients(Bz[i].data()); if (oracle::ready(1)) G.adam(LR, k); }
                for (int i = 0; i < n; i++) oracle::end();
            } else for (int i = 0; i < have; i++) { ld[i] = dGradients(R[i].data(), A[i].data()); lg[i] = gGradients(Bz[i].data()); }
            for (int i = 0; i < have; i++) if ((t + i) % 10 == 0 || t + i == 1) printf("[%4d] loss_d %.5f loss_g %.5f\n", t + i, ld[i], lg[i]);
        }
    } else
#endif
    for (int t = 1; t <= STEPS; t++) {
        sample();
        int k = t;
#ifdef ORACLE
        k = oracle::step(t); oracle::begin();
#endif
        float ld = dGradients(real.data(), z1.data());
        Dn.adam(LR, k);
        float lg = gGradients(z2.data());
        G.adam(LR, k);
#ifdef ORACLE
        oracle::end();
#endif
        if (t % 10 == 0 || t == 1) printf("[%4d] loss_d %.5f loss_g %.5f\n", t, ld, lg);
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    printf("mean distance from the ring %.4f\n", ringDistance());
    FILE* f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) return 1;
    G.save(f); Dn.save(f);
    fclose(f);
    return 0;
}
