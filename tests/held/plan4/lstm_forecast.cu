// lstm_forecast.cu - many-to-one LSTM that forecasts the next value of a noisy daily load curve.
// All parameters live in one arena, so Adam and the clipping need one launch each.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <random>
#include <algorithm>
#include <cuda_runtime.h>
#include <cublas_v2.h>
#ifdef ORACLE
#include "oracle.h"
#endif

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { \
    fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); exit(1); } } while (0)
#define CB(x) do { if ((x) != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "cublas error line %d\n", __LINE__); exit(1); } } while (0)

constexpr int T = 12;        // window
constexpr int I = 3;         // features
constexpr int H = 24;        // hidden
constexpr int G4 = 4 * H;
constexpr int B = 32;        // batch
constexpr int EPOCHS = 4;
constexpr float CLIP = 1.0f;

// parameter arena, offsets in floats
constexpr int O_WX = 0;
constexpr int O_WH = O_WX + I * G4;
constexpr int O_B  = O_WH + H * G4;
constexpr int O_WO = O_B + G4;
constexpr int O_BO = O_WO + H;
constexpr int NPAR = O_BO + 1;

struct Arena {
    float *p, *g, *m, *v;
    Arena() {
        float* base;
        CK(cudaMalloc(&base, sizeof(float) * 4 * NPAR));
        CK(cudaMemset(base, 0, sizeof(float) * 4 * NPAR));
        p = base; g = base + NPAR; m = base + 2 * NPAR; v = base + 3 * NPAR;
    }
    ~Arena() { cudaFree(p); }
};

// everything the forward pass leaves for the backward pass
struct Tape {
    float *x, *y, *h, *c, *gates, *pred, *dh, *dc, *dz, *loss, *norm;
    Tape() {
        CK(cudaMalloc(&x, sizeof(float) * T * B * I));
        CK(cudaMalloc(&y, sizeof(float) * B));
        CK(cudaMalloc(&h, sizeof(float) * (T + 1) * B * H));
        CK(cudaMalloc(&c, sizeof(float) * (T + 1) * B * H));
        CK(cudaMalloc(&gates, sizeof(float) * T * B * G4));
        CK(cudaMalloc(&pred, sizeof(float) * B));
        CK(cudaMalloc(&dh, sizeof(float) * B * H));
        CK(cudaMalloc(&dc, sizeof(float) * B * H));
        CK(cudaMalloc(&dz, sizeof(float) * B * G4));
        CK(cudaMalloc(&loss, sizeof(float)));
        CK(cudaMalloc(&norm, sizeof(float)));
    }
};

__device__ __forceinline__ float sigm(float x) { return 1.f / (1.f + expf(-x)); }

__global__ void cell_forward(float* z, const float* bias, const float* cprev, float* c, float* h) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * H) return;
    int b = i / H, k = i % H;
    float* zb = z + b * G4;
    float ig = sigm(zb[k] + bias[k]);
    float fg = sigm(zb[H + k] + bias[H + k]);
    float gg = tanhf(zb[2 * H + k] + bias[2 * H + k]);
    float og = sigm(zb[3 * H + k] + bias[3 * H + k]);
    float cn = fg * cprev[i] + ig * gg;
    c[i] = cn;
    h[i] = og * tanhf(cn);
    zb[k] = ig; zb[H + k] = fg; zb[2 * H + k] = gg; zb[3 * H + k] = og;
}

__global__ void cell_backward(const float* gates, const float* cprev, const float* c, const float* dh, float* dc, float* dz) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * H) return;
    int b = i / H, k = i % H;
    const float* gb = gates + b * G4;
    float ig = gb[k], fg = gb[H + k], gg = gb[2 * H + k], og = gb[3 * H + k];
    float tc = tanhf(c[i]);
    float dct = dc[i] + dh[i] * og * (1.f - tc * tc);
    float* d = dz + b * G4;
    d[k] = dct * gg * ig * (1.f - ig);
    d[H + k] = dct * cprev[i] * fg * (1.f - fg);
    d[2 * H + k] = dct * ig * (1.f - gg * gg);
    d[3 * H + k] = dh[i] * tc * og * (1.f - og);
    dc[i] = dct * fg;
}

__global__ void bias_grad(const float* dz, float* db) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= G4) return;
    float s = 0.f;
    for (int b = 0; b < B; ++b) s += dz[b * G4 + k];
    db[k] += s;
}

// output layer, MSE and its gradient: small enough for one block
__global__ void head(const float* h, const float* y, const float* wo, const float* bo, float* pred,
                     float* loss, float* dwo, float* dbo, float* dh) {
    __shared__ float e[B];
    int b = threadIdx.x;
    float s = bo[0];
    for (int k = 0; k < H; ++k) s += h[b * H + k] * wo[k];
    pred[b] = s;
    e[b] = s - y[b];
    float d = 2.f * e[b] / B;
    for (int k = 0; k < H; ++k) dh[b * H + k] = d * wo[k];
    __syncthreads();
    for (int k = b; k < H; k += B) {
        float a = 0.f;
        for (int j = 0; j < B; ++j) a += e[j] * h[j * H + k];
        dwo[k] = 2.f * a / B;
    }
    if (b == 0) {
        float l = 0.f, a = 0.f;
        for (int j = 0; j < B; ++j) { l += e[j] * e[j]; a += e[j]; }
        *loss = l / B;
        *dbo = 2.f * a / B;
    }
}

__global__ void grad_norm(const float* g, int n, float* out) {
    __shared__ float sh[256];
    float s = 0.f;
    for (int i = threadIdx.x; i < n; i += 256) s += g[i] * g[i];
    sh[threadIdx.x] = s;
    __syncthreads();
    for (int w = 128; w > 0; w >>= 1) {
        if (threadIdx.x < w) sh[threadIdx.x] += sh[threadIdx.x + w];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = sqrtf(sh[0]);
}

__global__ void adam(float* p, const float* g, float* m, float* v, const float* norm, int n, float lr, float c1, float c2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = *norm > CLIP ? CLIP / *norm : 1.f;
    float gi = g[i] * s;
    m[i] = 0.9f * m[i] + 0.1f * gi;
    v[i] = 0.999f * v[i] + 0.001f * gi * gi;
    p[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

// row-major C[m,n] = op(A) op(B) + beta C
static void gemm(cublasHandle_t h, bool ta, bool tb, int m, int n, int k, const float* A, const float* Bm, float beta, float* C) {
    const float one = 1.f;
    CB(cublasSgemm(h, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one,
                   Bm, tb ? k : n, A, ta ? m : k, &beta, C, n));
}

static void forward(cublasHandle_t hd, const Arena& a, Tape& t) {
    CK(cudaMemset(t.h, 0, sizeof(float) * B * H));      // h_0 = c_0 = 0
    CK(cudaMemset(t.c, 0, sizeof(float) * B * H));
    for (int s = 0; s < T; ++s) {
        float* z = t.gates + s * B * G4;
        gemm(hd, false, false, B, G4, I, t.x + s * B * I, a.p + O_WX, 0.f, z);
        gemm(hd, false, false, B, G4, H, t.h + s * B * H, a.p + O_WH, 1.f, z);
        cell_forward<<<(B * H + 127) / 128, 128>>>(z, a.p + O_B, t.c + s * B * H, t.c + (s + 1) * B * H, t.h + (s + 1) * B * H);
    }
}

static void backward(cublasHandle_t hd, const Arena& a, Tape& t) {
    CK(cudaMemset(a.g, 0, sizeof(float) * NPAR));
    head<<<1, B>>>(t.h + T * B * H, t.y, a.p + O_WO, a.p + O_BO, t.pred, t.loss, a.g + O_WO, a.g + O_BO, t.dh);
    CK(cudaMemset(t.dc, 0, sizeof(float) * B * H));
    for (int s = T - 1; s >= 0; --s) {
        cell_backward<<<(B * H + 127) / 128, 128>>>(t.gates + s * B * G4, t.c + s * B * H, t.c + (s + 1) * B * H, t.dh, t.dc, t.dz);
        gemm(hd, true, false, I, G4, B, t.x + s * B * I, t.dz, 1.f, a.g + O_WX);
        gemm(hd, true, false, H, G4, B, t.h + s * B * H, t.dz, 1.f, a.g + O_WH);
        bias_grad<<<1, G4>>>(t.dz, a.g + O_B);
        gemm(hd, false, true, B, H, G4, t.dz, a.p + O_WH, 0.f, t.dh);
    }
}

int main(int argc, char** argv) {
    const char* out = argc > 1 ? argv[1] : "model.bin";
    std::mt19937 rng(1234);
    std::normal_distribution<float> nd(0.f, 1.f);

    const int LEN = 1600;
    std::vector<float> series(LEN);
    for (int i = 0; i < LEN; ++i)
        series[i] = 0.6f * sinf(2 * M_PI * i / 24) + 0.3f * sinf(2 * M_PI * i / 168 + 1.f) + 0.2f * sinf(2 * M_PI * i / 12) + 0.05f * nd(rng);
    const int NTRAIN = 1280, NVAL = 256;

    Arena a;
    std::vector<float> init(NPAR, 0.f);
    for (int i = 0; i < O_B; ++i) init[i] = nd(rng) * 0.15f;
    for (int k = 0; k < H; ++k) { init[O_B + H + k] = 1.f; init[O_WO + k] = nd(rng) * 0.2f; }   // forget bias 1
    CK(cudaMemcpy(a.p, init.data(), sizeof(float) * NPAR, cudaMemcpyHostToDevice));
#ifdef ORACLE
    oracle::state(a.p, NPAR); oracle::state(a.m, NPAR); oracle::state(a.v, NPAR);
    oracle::grad(a.g, NPAR);
#endif
    Tape t;
    cublasHandle_t hd;
    CB(cublasCreate(&hd));

    std::vector<float> hx(T * B * I), hy(B);
    auto fill = [&](const int* idx) {
        for (int b = 0; b < B; ++b) {
            for (int s = 0; s < T; ++s) {
                int k = idx[b] + s;
                float* f = &hx[(s * B + b) * I];
                f[0] = series[k]; f[1] = sinf(2 * M_PI * k / 24); f[2] = cosf(2 * M_PI * k / 24);
            }
            hy[b] = series[idx[b] + T];
        }
        CK(cudaMemcpy(t.x, hx.data(), sizeof(float) * hx.size(), cudaMemcpyHostToDevice));
        CK(cudaMemcpy(t.y, hy.data(), sizeof(float) * B, cudaMemcpyHostToDevice));
    };
    std::vector<int> order(NTRAIN);
    for (int i = 0; i < NTRAIN; ++i) order[i] = i;

    int step = 0;
    for (int ep = 0; ep < EPOCHS; ++ep) {
        std::shuffle(order.begin(), order.end(), rng);
        float lr = 0.005f * powf(0.7f, (float)ep), sum = 0.f;
        for (int k = 0; k < NTRAIN / B; ++k) {
#ifdef ORACLE
            oracle::begin();
#endif
            fill(&order[k * B]);
            forward(hd, a, t);
            backward(hd, a, t);
            int adam_t = ++step;
#ifdef ORACLE
            adam_t = oracle::step(step);
            if (oracle::ready()) {
#endif
            grad_norm<<<1, 256>>>(a.g, NPAR, t.norm);
            adam<<<(NPAR + 255) / 256, 256>>>(a.p, a.g, a.m, a.v, t.norm, NPAR, lr, 1.f - powf(0.9f, adam_t), 1.f - powf(0.999f, adam_t));
#ifdef ORACLE
            }
            oracle::end();
#endif
            float l;
            CK(cudaMemcpy(&l, t.loss, sizeof(float), cudaMemcpyDeviceToHost));
            sum += l;
        }
#ifdef ORACLE
        oracle::boundary();
#endif
        double vl = 0;
        for (int k = 0; k < NVAL / B; ++k) {
            int idx[B];
            for (int b = 0; b < B; ++b) idx[b] = NTRAIN + T + k * B + b;
            fill(idx);
            forward(hd, a, t);
            head<<<1, B>>>(t.h + T * B * H, t.y, a.p + O_WO, a.p + O_BO, t.pred, t.loss, a.g + O_WO, a.g + O_BO, t.dh);
            float l;
            CK(cudaMemcpy(&l, t.loss, sizeof(float), cudaMemcpyDeviceToHost));
            vl += l;
        }
        printf("epoch %d  lr %.4f  train mse %.5f  val mse %.5f\n", ep + 1, lr, sum / (NTRAIN / B), vl / (NVAL / B));
    }
    std::vector<float> w(NPAR);
    CK(cudaMemcpy(w.data(), a.p, sizeof(float) * NPAR, cudaMemcpyDeviceToHost));
    FILE* f = fopen(out, "wb");
    fwrite(w.data(), sizeof(float), NPAR, f);
    fclose(f);
    cublasDestroy(hd);
    return 0;
}
