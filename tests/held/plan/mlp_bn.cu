// MLP with batch normalisation.  Running mean and variance are kept on the device and
// used in the test pass after each epoch.  Momentum SGD.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#ifdef ORACLE
#include "oracle.h"
#endif

static constexpr int IN = 12, HID = 32, CLS = 3, BATCH = 48, NTRAIN = 576, NTEST = 144;
static constexpr float EPS = 1e-5f, BNM = 0.1f;

template <typename F, typename... A>
void run(F kernel, dim3 g, int b, A... a) {
    kernel<<<g, b>>>(a...);
    cudaError_t e = cudaGetLastError();
    if (e != cudaSuccess) { std::fprintf(stderr, "launch: %s\n", cudaGetErrorString(e)); std::exit(1); }
}

__global__ void dense(const float* x, const float* w, const float* b, float* y, int in, int out) {
    int r = blockIdx.x, c = threadIdx.x;
    float s = b ? b[c] : 0.f;
    for (int i = 0; i < in; ++i) s += x[r * in + i] * w[i * out + c];
    y[r * out + c] = s;
}
// one thread for a feature
__global__ void bnTrain(const float* z, const float* gamma, const float* beta, float* xhat, float* a, float* istd, float* rmean, float* rvar) {
    int c = threadIdx.x;
    float m = 0, v = 0;
    for (int r = 0; r < BATCH; ++r) m += z[r * HID + c];
    m /= BATCH;
    for (int r = 0; r < BATCH; ++r) { float d = z[r * HID + c] - m; v += d * d; }
    v /= BATCH;
    rmean[c] = (1 - BNM) * rmean[c] + BNM * m;
    rvar[c] = (1 - BNM) * rvar[c] + BNM * v * BATCH / (BATCH - 1);
    float s = rsqrtf(v + EPS);
    istd[c] = s;
    for (int r = 0; r < BATCH; ++r) {
        float h = (z[r * HID + c] - m) * s;
        xhat[r * HID + c] = h;
        a[r * HID + c] = fmaxf(gamma[c] * h + beta[c], 0.f);
    }
}
__global__ void bnTest(float* z, const float* gamma, const float* beta, const float* rmean, const float* rvar) {
    int i = blockIdx.x * HID + threadIdx.x, c = threadIdx.x;
    z[i] = fmaxf(gamma[c] * (z[i] - rmean[c]) * rsqrtf(rvar[c] + EPS) + beta[c], 0.f);
}
__global__ void loss(const float* z, const int* y, float* dz, float* l, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float m = fmaxf(z[r * 3], fmaxf(z[r * 3 + 1], z[r * 3 + 2])), s = 0;
    for (int k = 0; k < CLS; ++k) s += expf(z[r * CLS + k] - m);
    for (int k = 0; k < CLS; ++k) dz[r * CLS + k] = (expf(z[r * CLS + k] - m) / s - (k == y[r])) / rows;
    l[r] = logf(s) + m - z[r * CLS + y[r]];
}
__global__ void denseGrad(const float* x, const float* dy, float* gw, float* gb, int in, int out) {
    int i = blockIdx.x, c = threadIdx.x;
    float s = 0, t = 0;
    for (int r = 0; r < BATCH; ++r) { s += x[r * in + i] * dy[r * out + c]; t += dy[r * out + c]; }
    gw[i * out + c] = s;
    if (gb && i == 0) gb[c] = t;
}
__global__ void bnBack(const float* dz2, const float* w2, const float* a, const float* xhat, const float* gamma, const float* istd,
                       float* dz, float* gg, float* gb) {
    int c = threadIdx.x;
    float sg = 0, sb = 0;
    for (int r = 0; r < BATCH; ++r) {
        float d = 0;
        for (int k = 0; k < CLS; ++k) d += dz2[r * CLS + k] * w2[c * CLS + k];
        if (a[r * HID + c] <= 0) d = 0;
        dz[r * HID + c] = d;
        sb += d; sg += d * xhat[r * HID + c];
    }
    gg[c] = sg; gb[c] = sb;
    for (int r = 0; r < BATCH; ++r)
        dz[r * HID + c] = gamma[c] * istd[c] * (dz[r * HID + c] - sb / BATCH - xhat[r * HID + c] * sg / BATCH);
}
__global__ void sgdm(float* w, const float* g, float* v, int n, float lr) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) { v[i] = 0.9f * v[i] + g[i]; w[i] -= lr * v[i]; }
}

enum { W1, GAMMA, BETA, W2, B2, NT };
static const int len[NT] = {IN * HID, HID, HID, HID * CLS, CLS};

int main(int argc, char** argv) {
    std::mt19937 rng(55);
    std::normal_distribution<float> nd;
    int n = NTRAIN + NTEST;
    std::vector<float> X(n * IN); std::vector<int> Y(n);
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < IN; ++j) X[i * IN + j] = 3 * nd(rng) + j;
        float a = X[i * IN] - X[i * IN + 1] + 1, b = X[i * IN + 2] - 2 - (X[i * IN + 3] - 3);
        Y[i] = a > 1.5f ? 0 : b > 0 ? 1 : 2;
    }
    float *dX, *z1, *xh, *a1, *is, *z2, *dz2, *dz1, *l, *rm, *rv, *w[NT], *g[NT], *v[NT]; int* dY;
    cudaMalloc(&dX, X.size() * 4); cudaMalloc(&dY, n * 4);
    cudaMalloc(&z1, NTEST * HID * 4); cudaMalloc(&xh, BATCH * HID * 4); cudaMalloc(&a1, BATCH * HID * 4); cudaMalloc(&is, HID * 4);
    cudaMalloc(&z2, NTEST * CLS * 4); cudaMalloc(&dz2, NTEST * CLS * 4); cudaMalloc(&dz1, BATCH * HID * 4); cudaMalloc(&l, NTEST * 4);
    cudaMalloc(&rm, HID * 4); cudaMalloc(&rv, HID * 4);
    std::vector<float> ones(HID, 1.f);
    cudaMemcpy(dX, X.data(), X.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dY, Y.data(), n * 4, cudaMemcpyHostToDevice);
    cudaMemset(rm, 0, HID * 4);
    cudaMemcpy(rv, ones.data(), HID * 4, cudaMemcpyHostToDevice);
    for (int k = 0; k < NT; ++k) {
        cudaMalloc(&w[k], len[k] * 4); cudaMalloc(&g[k], len[k] * 4); cudaMalloc(&v[k], len[k] * 4);
        cudaMemset(v[k], 0, len[k] * 4);
        std::vector<float> h(len[k], k == GAMMA ? 1.f : 0.f);
        if (k == W1 || k == W2) for (float& e : h) e = 0.25f * nd(rng);
        cudaMemcpy(w[k], h.data(), len[k] * 4, cudaMemcpyHostToDevice);
#ifdef ORACLE
        oracle::state(w[k], len[k]); oracle::state(v[k], len[k]); oracle::grad(g[k], len[k]);
#endif
    }
#ifdef ORACLE
    oracle::carried(rm, HID); oracle::carried(rv, HID);   // mean of the N results, in both ways
#endif
    std::vector<float> hl(NTEST);
    auto mean = [&](int rows) { cudaMemcpy(hl.data(), l, rows * 4, cudaMemcpyDeviceToHost); double s = 0; for (int i = 0; i < rows; ++i) s += hl[i]; return s / rows; };
    for (int epoch = 0; epoch < 8; ++epoch) {
        double sum = 0;
        for (int b = 0; b < NTRAIN / BATCH; ++b) {
            const float* x = dX + b * BATCH * IN; const int* y = dY + b * BATCH;
#ifdef ORACLE
            oracle::begin();
#endif
            run(dense, BATCH, HID, x, w[W1], (const float*)nullptr, z1, IN, HID);
            run(bnTrain, 1, HID, z1, w[GAMMA], w[BETA], xh, a1, is, rm, rv);
            run(dense, BATCH, CLS, a1, w[W2], w[B2], z2, HID, CLS);
            run(loss, 1, BATCH, z2, y, dz2, l, BATCH);
            run(denseGrad, HID, CLS, a1, dz2, g[W2], g[B2], HID, CLS);
            run(bnBack, 1, HID, dz2, w[W2], a1, xh, w[GAMMA], is, dz1, g[GAMMA], g[BETA]);
            run(denseGrad, IN, HID, x, dz1, g[W1], (float*)nullptr, IN, HID);
#ifdef ORACLE
            if (oracle::ready())
#endif
            for (int k = 0; k < NT; ++k) run(sgdm, 1, 128, w[k], g[k], v[k], len[k], 0.05f);
#ifdef ORACLE
            oracle::end();
#endif
            sum += mean(BATCH);
        }
#ifdef ORACLE
        oracle::boundary();
#endif
        run(dense, NTEST, HID, dX + NTRAIN * IN, w[W1], (const float*)nullptr, z1, IN, HID);
        run(bnTest, NTEST, HID, z1, w[GAMMA], w[BETA], rm, rv);
        run(dense, NTEST, CLS, z1, w[W2], w[B2], z2, HID, CLS);
        run(loss, 2, 96, z2, dY + NTRAIN, dz2, l, NTEST);
        std::printf("Epoch %d: train loss %.5f, test loss %.5f\n", epoch + 1, sum / (NTRAIN / BATCH), mean(NTEST));
    }
    FILE* f = std::fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) return 1;
    auto dump = [&](const float* d, int c) { std::vector<float> h(c); cudaMemcpy(h.data(), d, c * 4, cudaMemcpyDeviceToHost); std::fwrite(h.data(), 4, c, f); };
    for (int k = 0; k < NT; ++k) dump(w[k], len[k]);
    dump(rm, HID); dump(rv, HID);
    std::fclose(f);
}
