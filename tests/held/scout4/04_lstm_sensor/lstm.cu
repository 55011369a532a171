// LSTM regression on synthetic sensor sequences. cuBLAS for the gate products.
// All matrices are column-major: a batch of vectors of length n is an n x B matrix.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime.h>

#define CUDA(x) do { cudaError_t s = (x); if (s != cudaSuccess) { \
    fprintf(stderr, "cuda: %s line %d\n", cudaGetErrorString(s), __LINE__); exit(1); } } while (0)
#define BLAS(x) do { cublasStatus_t s = (x); if (s != CUBLAS_STATUS_SUCCESS) { \
    fprintf(stderr, "cublas: %d line %d\n", (int)s, __LINE__); exit(1); } } while (0)

const int I = 4;         // sensors
const int H = 32;        // hidden units
const int B = 64;        // sequences per batch
const int T = 16;        // time steps
const int ITERS = 100;
const float LR = 0.004f;
const float CLIP = 1.0f;

struct Weights {
    float *Wx, *Wh, *b, *Wy, *by;
};

enum { NWX = 4 * H * I, NWH = 4 * H * H, NB = 4 * H, NWY = H, NBY = 1 };

static void allocWeights(Weights &w)
{
    CUDA(cudaMalloc(&w.Wx, NWX * sizeof(float)));
    CUDA(cudaMalloc(&w.Wh, NWH * sizeof(float)));
    CUDA(cudaMalloc(&w.b, NB * sizeof(float)));
    CUDA(cudaMalloc(&w.Wy, NWY * sizeof(float)));
    CUDA(cudaMalloc(&w.by, NBY * sizeof(float)));
}

static void zeroWeights(Weights &w)
{
    CUDA(cudaMemset(w.Wx, 0, NWX * sizeof(float)));
    CUDA(cudaMemset(w.Wh, 0, NWH * sizeof(float)));
    CUDA(cudaMemset(w.b, 0, NB * sizeof(float)));
    CUDA(cudaMemset(w.Wy, 0, NWY * sizeof(float)));
    CUDA(cudaMemset(w.by, 0, NBY * sizeof(float)));
}

__device__ inline float sigm(float x) { return 1.0f / (1.0f + expf(-x)); }

__global__ void addBias(float *a, const float *b, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) a[i] += b[i % rows];
}

// gates: 4H x B, order i f g o; overwritten by the activated values
__global__ void lstmCell(float *gates, const float *cprev, float *c, float *h)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= H * B) return;
    int j = t % H, n = t / H;
    float *g = gates + n * 4 * H;
    float gi = sigm(g[j]), gf = sigm(g[H + j]), gg = tanhf(g[2 * H + j]), go = sigm(g[3 * H + j]);
    g[j] = gi; g[H + j] = gf; g[2 * H + j] = gg; g[3 * H + j] = go;
    c[t] = gf * cprev[t] + gi * gg;
    h[t] = go * tanhf(c[t]);
}

__global__ void lstmCellBackward(const float *gates, const float *cprev, const float *c, const float *dh, float *dc,
                                 float *dgates)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= H * B) return;
    int j = t % H, n = t / H;
    const float *g = gates + n * 4 * H;
    float gi = g[j], gf = g[H + j], gg = g[2 * H + j], go = g[3 * H + j];
    float tc = tanhf(c[t]);
    float d = dc[t] + dh[t] * go * (1 - tc * tc);
    float *dg = dgates + n * 4 * H;
    dg[j] = d * gg * gi * (1 - gi);
    dg[H + j] = d * cprev[t] * gf * (1 - gf);
    dg[2 * H + j] = d * gi * (1 - gg * gg);
    dg[3 * H + j] = dh[t] * tc * go * (1 - go);
    dc[t] = d * gf;
}

__global__ void mseLoss(const float *y, const float *target, float *dy, float *sq)
{
    int n = threadIdx.x;
    float e = y[n] - target[n];
    sq[n] = e * e;
    dy[n] = 2.0f * e / B;
}

__global__ void rmsprop(float *w, const float *g, float *s, float lr, float scale, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float gi = g[i] * scale;
    s[i] = 0.95f * s[i] + 0.05f * gi * gi;
    w[i] -= lr * gi / (sqrtf(s[i]) + 1e-6f);
}

static std::mt19937 rng(314);

// x[t][n][i]; the target is a nonlinear function of the whole sequence
static void makeBatch(std::vector<float> &x, std::vector<float> &target)
{
    std::uniform_real_distribution<float> u(-1.0f, 1.0f);
    for (int n = 0; n < B; n++) {
        float freq = 0.3f + 0.2f * u(rng), phase = 3.14f * u(rng), amp = u(rng), drift = u(rng);
        for (int t = 0; t < T; t++)
            for (int i = 0; i < I; i++)
                x[(t * B + n) * I + i] = amp * sinf(freq * t + phase + i) + drift * t / T * (i == 2) + 0.05f * u(rng);
        target[n] = 0.7f * amp * cosf(phase) + 0.6f * drift;
    }
}

int main()
{
    cublasHandle_t blas;
    BLAS(cublasCreate(&blas));

    Weights w, g, s;
    allocWeights(w); allocWeights(g); allocWeights(s);
    zeroWeights(w); zeroWeights(s);

    auto randomize = [&](float *p, int n, float scale) {
        std::uniform_real_distribution<float> u(-scale, scale);
        std::vector<float> h(n);
        for (auto &v : h) v = u(rng);
        CUDA(cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    };
    randomize(w.Wx, NWX, 0.4f);
    randomize(w.Wh, NWH, 0.18f);
    randomize(w.Wy, NWY, 0.18f);
    std::vector<float> forget(NB, 0.0f);
    for (int j = 0; j < H; j++) forget[H + j] = 1.0f;
    CUDA(cudaMemcpy(w.b, forget.data(), NB * sizeof(float), cudaMemcpyHostToDevice));

    float *x, *target, *gates, *h, *c, *y, *dy, *dh, *dc, *dgates, *sq, *ones;
    CUDA(cudaMalloc(&x, T * I * B * sizeof(float)));
    CUDA(cudaMalloc(&target, B * sizeof(float)));
    CUDA(cudaMalloc(&gates, T * 4 * H * B * sizeof(float)));
    CUDA(cudaMalloc(&h, (T + 1) * H * B * sizeof(float)));
    CUDA(cudaMalloc(&c, (T + 1) * H * B * sizeof(float)));
    CUDA(cudaMalloc(&y, B * sizeof(float)));
    CUDA(cudaMalloc(&dy, B * sizeof(float)));
    CUDA(cudaMalloc(&dh, H * B * sizeof(float)));
    CUDA(cudaMalloc(&dc, H * B * sizeof(float)));
    CUDA(cudaMalloc(&dgates, 4 * H * B * sizeof(float)));
    CUDA(cudaMalloc(&sq, B * sizeof(float)));
    CUDA(cudaMalloc(&ones, B * sizeof(float)));
    std::vector<float> one(B, 1.0f);
    CUDA(cudaMemcpy(ones, one.data(), B * sizeof(float), cudaMemcpyHostToDevice));

    std::vector<float> hx(T * B * I), ht(B), hsq(B);
    const float alpha = 1.0f, zero = 0.0f, keep = 1.0f;
    const int HB = H * B;

    for (int iter = 0; iter < ITERS; iter++) {
        makeBatch(hx, ht);
        CUDA(cudaMemcpy(x, hx.data(), hx.size() * sizeof(float), cudaMemcpyHostToDevice));
        CUDA(cudaMemcpy(target, ht.data(), ht.size() * sizeof(float), cudaMemcpyHostToDevice));

        // forward
        CUDA(cudaMemset(h, 0, HB * sizeof(float)));
        CUDA(cudaMemset(c, 0, HB * sizeof(float)));
        for (int t = 0; t < T; t++) {
            float *gt = gates + t * 4 * HB;
            BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 4 * H, B, I, &alpha, w.Wx, 4 * H, x + t * I * B, I, &zero,
                             gt, 4 * H));
            BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 4 * H, B, H, &alpha, w.Wh, 4 * H, h + t * HB, H, &keep, gt,
                             4 * H));
            addBias<<<(4 * HB + 255) / 256, 256>>>(gt, w.b, 4 * H, B);
            lstmCell<<<(HB + 255) / 256, 256>>>(gt, c + t * HB, c + (t + 1) * HB, h + (t + 1) * HB);
        }
        BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, B, H, &alpha, w.Wy, 1, h + T * HB, H, &zero, y, 1));
        addBias<<<1, B>>>(y, w.by, 1, B);
        mseLoss<<<1, B>>>(y, target, dy, sq);

        // backward
        zeroWeights(g);
        BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, 1, H, B, &alpha, dy, 1, h + T * HB, H, &zero, g.Wy, 1));
        BLAS(cublasSdot(blas, B, dy, 1, ones, 1, hsq.data()));
        CUDA(cudaMemcpy(g.by, hsq.data(), sizeof(float), cudaMemcpyHostToDevice));
        BLAS(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, H, B, 1, &alpha, w.Wy, 1, dy, 1, &zero, dh, H));
        CUDA(cudaMemset(dc, 0, HB * sizeof(float)));
        for (int t = T - 1; t >= 0; t--) {
            lstmCellBackward<<<(HB + 255) / 256, 256>>>(gates + t * 4 * HB, c + t * HB, c + (t + 1) * HB, dh, dc,
                                                        dgates);
            BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, 4 * H, I, B, &alpha, dgates, 4 * H, x + t * I * B, I,
                             &keep, g.Wx, 4 * H));
            BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, 4 * H, H, B, &alpha, dgates, 4 * H, h + t * HB, H, &keep,
                             g.Wh, 4 * H));
            BLAS(cublasSgemv(blas, CUBLAS_OP_N, 4 * H, B, &alpha, dgates, 4 * H, ones, 1, &keep, g.b, 1));
            BLAS(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, H, B, 4 * H, &alpha, w.Wh, 4 * H, dgates, 4 * H, &zero, dh,
                             H));
        }

        // clip by global norm
        float norm2 = 0, nrm;
        BLAS(cublasSnrm2(blas, NWX, g.Wx, 1, &nrm)); norm2 += nrm * nrm;
        BLAS(cublasSnrm2(blas, NWH, g.Wh, 1, &nrm)); norm2 += nrm * nrm;
        BLAS(cublasSnrm2(blas, NB, g.b, 1, &nrm));   norm2 += nrm * nrm;
        BLAS(cublasSnrm2(blas, NWY, g.Wy, 1, &nrm)); norm2 += nrm * nrm;
        BLAS(cublasSnrm2(blas, NBY, g.by, 1, &nrm)); norm2 += nrm * nrm;
        float scale = sqrtf(norm2) > CLIP ? CLIP / sqrtf(norm2) : 1.0f;

        rmsprop<<<(NWX + 255) / 256, 256>>>(w.Wx, g.Wx, s.Wx, LR, scale, NWX);
        rmsprop<<<(NWH + 255) / 256, 256>>>(w.Wh, g.Wh, s.Wh, LR, scale, NWH);
        rmsprop<<<1, NB>>>(w.b, g.b, s.b, LR, scale, NB);
        rmsprop<<<1, NWY>>>(w.Wy, g.Wy, s.Wy, LR, scale, NWY);
        rmsprop<<<1, 1>>>(w.by, g.by, s.by, LR, scale, NBY);

        if (iter % 10 == 0 || iter == ITERS - 1) {
            CUDA(cudaMemcpy(hsq.data(), sq, B * sizeof(float), cudaMemcpyDeviceToHost));
            float loss = 0;
            for (float e : hsq) loss += e;
            printf("iter %3d mse %.5f grad norm %.4f\n", iter, loss / B, sqrtf(norm2));
        }
    }
    cublasDestroy(blas);
    return 0;
}
