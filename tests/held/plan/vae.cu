// Variational autoencoder, 24 inputs, 16 hidden, 3 latent.  RMSprop.
// The noise of the latent sample comes from the cuRAND host interface.
#include <cuda_runtime.h>
#include <curand.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <vector>
#include <random>
#ifdef ORACLE
#include "oracle.h"
#endif

enum { D = 24, H = 16, L = 3, B = 40, N = 960 };

typedef struct {
    float *W1, *b1;        // D -> H
    float *Wm, *bm;        // H -> L mean
    float *Ws, *bs;        // H -> L log variance
    float *W3, *b3;        // L -> H
    float *W4, *b4;        // H -> D
} Tensors;

static const int sizes[10] = {D * H, H, H * L, L, H * L, L, L * H, H, H * D, D};

// three sets of the same shape: values, gradients, squares
static void alloc_set(Tensors* t)
{
    float** p = (float**)t;
    for (int i = 0; i < 10; i++) {
        cudaMalloc(&p[i], sizes[i] * sizeof(float));
        cudaMemset(p[i], 0, sizes[i] * sizeof(float));
    }
}

__global__ void fc(const float* x, const float* W, const float* b, float* y, int in, int out, int act)
{
    int r = blockIdx.x, c = threadIdx.x;
    float s = b[c];
    for (int i = 0; i < in; i++) s += x[r * in + i] * W[i * out + c];
    y[r * out + c] = act ? tanhf(s) : s;
}

__global__ void sample(const float* mu, const float* lv, const float* eps, float* z)
{
    int i = blockIdx.x * L + threadIdx.x;
    z[i] = mu[i] + expf(0.5f * lv[i]) * eps[i];
}

// rec error + KL for each row; dy is filled
__global__ void elbo(const float* y, const float* x, const float* mu, const float* lv, float* dy, float* loss)
{
    int r = threadIdx.x;
    float s = 0;
    for (int j = 0; j < D; j++) {
        float e = y[r * D + j] - x[r * D + j];
        s += e * e;
        dy[r * D + j] = 2 * e / B;
    }
    for (int j = 0; j < L; j++) {
        float m = mu[r * L + j], v = lv[r * L + j];
        s += 0.05f * (m * m + expf(v) - v - 1);
    }
    loss[r] = s;
}

__global__ void fc_wgrad(const float* x, const float* dy, float* gW, float* gb, int in, int out)
{
    int i = blockIdx.x, c = threadIdx.x;
    float s = 0;
    for (int r = 0; r < B; r++) s += dy[r * out + c] * (i < in ? x[r * in + i] : 1.f);
    if (i < in) gW[i * out + c] = s; else gb[c] = s;
}

// dx (+)= dy W^T, times tanh' of a when given
__global__ void fc_dx(const float* dy, const float* W, float* dx, const float* a, int in, int out, int add)
{
    int r = blockIdx.x, i = threadIdx.x;
    float s = add ? dx[r * in + i] : 0;
    for (int c = 0; c < out; c++) s += dy[r * out + c] * W[i * out + c];
    if (a) s *= 1 - a[r * in + i] * a[r * in + i];
    dx[r * in + i] = s;
}

__global__ void latent_grad(const float* dz, const float* mu, const float* lv, const float* eps, float* dmu, float* dlv)
{
    int i = blockIdx.x * L + threadIdx.x;
    dmu[i] = dz[i] + 0.1f * mu[i] / B;
    dlv[i] = dz[i] * eps[i] * 0.5f * expf(0.5f * lv[i]) + 0.05f * (expf(lv[i]) - 1) / B;
}

__global__ void rmsprop(float* w, const float* g, float* s, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        s[i] = 0.95f * s[i] + 0.05f * g[i] * g[i];
        w[i] -= lr * g[i] / (sqrtf(s[i]) + 1e-5f);
    }
}

static float* buf(int n) { float* p; cudaMalloc(&p, n * sizeof(float)); return p; }

int main(int argc, char** argv)
{
    std::mt19937 rng(5);
    std::normal_distribution<float> gauss;
    std::vector<float> data(N * D), basis(L * D);
    for (auto& v : basis) v = gauss(rng);
    for (int i = 0; i < N; i++) {
        float c[L];
        for (auto& v : c) v = gauss(rng);
        for (int d = 0; d < D; d++) {
            float s = 0;
            for (int k = 0; k < L; k++) s += c[k] * basis[k * D + d];
            data[i * D + d] = 0.7f * s + 0.1f * gauss(rng);
        }
    }
    Tensors P, G, S;
    alloc_set(&P); alloc_set(&G); alloc_set(&S);
    for (int i = 0; i < 10; i += 2) {
        std::vector<float> w(sizes[i]);
        for (auto& v : w) v = 0.2f * gauss(rng);
        cudaMemcpy(((float**)&P)[i], w.data(), w.size() * 4, cudaMemcpyHostToDevice);
    }
#ifdef ORACLE
    for (int i = 0; i < 10; i++) {
        oracle::state(((float**)&P)[i], sizes[i]); oracle::state(((float**)&S)[i], sizes[i]); oracle::grad(((float**)&G)[i], sizes[i]);
    }
#endif
    float *X = buf(N * D), *h = buf(B * H), *mu = buf(B * L), *lv = buf(B * L), *eps = buf(B * L), *z = buf(B * L), *h2 = buf(B * H), *y = buf(B * D);
    float *dy = buf(B * D), *dh2 = buf(B * H), *dz = buf(B * L), *dmu = buf(B * L), *dlv = buf(B * L), *dh = buf(B * H), *loss = buf(B);
    cudaMemcpy(X, data.data(), data.size() * 4, cudaMemcpyHostToDevice);
    curandGenerator_t cg;
    curandCreateGenerator(&cg, CURAND_RNG_PSEUDO_DEFAULT);
    curandSetPseudoRandomGeneratorSeed(cg, 1234ULL);

    for (int epoch = 0; epoch < 10; epoch++) {
        float total = 0;
        for (int b = 0; b < N / B; b++) {
            float* x = X + b * B * D;
#ifdef ORACLE
            oracle::begin();
#endif
            curandGenerateNormal(cg, eps, B * L, 0.f, 1.f);
            fc<<<B, H>>>(x, P.W1, P.b1, h, D, H, 1);
            fc<<<B, L>>>(h, P.Wm, P.bm, mu, H, L, 0);
            fc<<<B, L>>>(h, P.Ws, P.bs, lv, H, L, 0);
            sample<<<B, L>>>(mu, lv, eps, z);
            fc<<<B, H>>>(z, P.W3, P.b3, h2, L, H, 1);
            fc<<<B, D>>>(h2, P.W4, P.b4, y, H, D, 0);
            elbo<<<1, B>>>(y, x, mu, lv, dy, loss);
            fc_wgrad<<<H + 1, D>>>(h2, dy, G.W4, G.b4, H, D);
            fc_dx<<<B, H>>>(dy, P.W4, dh2, h2, H, D, 0);
            fc_wgrad<<<L + 1, H>>>(z, dh2, G.W3, G.b3, L, H);
            fc_dx<<<B, L>>>(dh2, P.W3, dz, NULL, L, H, 0);
            latent_grad<<<B, L>>>(dz, mu, lv, eps, dmu, dlv);
            fc_wgrad<<<H + 1, L>>>(h, dmu, G.Wm, G.bm, H, L);
            fc_wgrad<<<H + 1, L>>>(h, dlv, G.Ws, G.bs, H, L);
            fc_dx<<<B, H>>>(dmu, P.Wm, dh, NULL, H, L, 0);
            fc_dx<<<B, H>>>(dlv, P.Ws, dh, h, H, L, 1);
            fc_wgrad<<<D + 1, H>>>(x, dh, G.W1, G.b1, D, H);
#ifdef ORACLE
            if (oracle::ready())
#endif
            for (int i = 0; i < 10; i++)
                rmsprop<<<(sizes[i] + 63) / 64, 64>>>(((float**)&P)[i], ((float**)&G)[i], ((float**)&S)[i], sizes[i], 0.003f);
#ifdef ORACLE
            oracle::end();
#endif
            float hl[B];
            cudaMemcpy(hl, loss, sizeof hl, cudaMemcpyDeviceToHost);
            float bl = 0;
            for (int i = 0; i < B; i++) bl += hl[i] / B;
            total += bl;
            if (b % 12 == 0) printf("epoch %d batch %d/%d elbo loss %.4f\n", epoch, b, N / B, bl);
        }
        printf("epoch %d mean %.4f\n", epoch, total / (N / B));
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    FILE* out = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!out) return fprintf(stderr, "cannot open output\n"), 1;
    for (int i = 0; i < 10; i++) {
        std::vector<float> w(sizes[i]);
        cudaMemcpy(w.data(), ((float**)&P)[i], w.size() * 4, cudaMemcpyDeviceToHost);
        fwrite(w.data(), 4, w.size(), out);
    }
    fclose(out);
    curandDestroyGenerator(cg);
    return 0;
}
