// Small CNN: conv 3x3 -> ReLU -> maxpool 2x2 -> linear, on 10x10 one-channel pictures.
// Momentum SGD.  The data are on the device; a shuffled index list picks each batch.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <random>
#include <algorithm>
#include <cuda_runtime.h>
#ifdef ORACLE
#include "oracle.h"
#endif

const int S = 10, C = 6, K = 3, CS = S - K + 1, PS = CS / 2, CLASSES = 4, B = 32;
const int FLAT = C * PS * PS;

struct Param {           // a tensor with its gradient and its velocity
    float *w, *g, *v;
    int n;
};

static Param make_param(int n, float scale, std::mt19937 &gen)
{
    Param p; p.n = n;
    cudaMalloc(&p.w, n * sizeof(float));
    cudaMalloc(&p.g, n * sizeof(float));
    cudaMalloc(&p.v, n * sizeof(float));
    std::vector<float> h(n);
    std::uniform_real_distribution<float> u(-scale, scale);
    for (auto &x : h) x = scale > 0 ? u(gen) : 0.f;
    cudaMemcpy(p.w, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(p.v, 0, n * sizeof(float));
#ifdef ORACLE
    oracle::state(p.w, n); oracle::state(p.v, n); oracle::grad(p.g, n);
#endif
    return p;
}

__global__ void gather(const float *X, const int *Y, const int *idx, float *bx, int *by)
{
    int b = blockIdx.x;
    for (int i = threadIdx.x; i < S * S; i += blockDim.x) bx[b * S * S + i] = X[idx[b] * S * S + i];
    if (threadIdx.x == 0) by[b] = Y[idx[b]];
}

// a block for each picture and filter
__global__ void conv_fwd(const float *x, const float *w, const float *bias, float *out)
{
    int b = blockIdx.x, c = blockIdx.y, t = threadIdx.x;
    if (t >= CS * CS) return;
    int r = t / CS, q = t % CS;
    float s = bias[c];
    for (int i = 0; i < K; i++)
        for (int j = 0; j < K; j++)
            s += x[b * S * S + (r + i) * S + q + j] * w[c * K * K + i * K + j];
    out[(b * C + c) * CS * CS + t] = s > 0 ? s : 0;
}

__global__ void pool_fwd(const float *in, float *out, int *arg)
{
    int b = blockIdx.x, t = threadIdx.x;           // t over C*PS*PS
    if (t >= FLAT) return;
    int c = t / (PS * PS), r = t % (PS * PS) / PS, q = t % PS, best = -1;
    float m = -1e30f;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            int at = (b * C + c) * CS * CS + (2 * r + i) * CS + 2 * q + j;
            if (in[at] > m) { m = in[at]; best = at; }
        }
    out[b * FLAT + t] = m;
    arg[b * FLAT + t] = best;
}

// linear layer, softmax and loss; a block for each picture
__global__ void head(const float *a, const float *w, const float *bias, const int *y, float *dz, float *loss)
{
    __shared__ float z[CLASSES];
    int b = blockIdx.x, t = threadIdx.x;
    if (t < CLASSES) {
        float s = bias[t];
        for (int i = 0; i < FLAT; i++) s += a[b * FLAT + i] * w[i * CLASSES + t];
        z[t] = s;
    }
    __syncthreads();
    if (t < CLASSES) {
        float m = z[0], s = 0;
        for (int k = 1; k < CLASSES; k++) m = fmaxf(m, z[k]);
        for (int k = 0; k < CLASSES; k++) s += expf(z[k] - m);
        float p = expf(z[t] - m) / s;
        dz[b * CLASSES + t] = (p - (y[b] == t ? 1.f : 0.f)) / B;
        if (y[b] == t) loss[b] = -logf(p + 1e-12f);
    }
}

__global__ void head_grad(const float *a, const float *dz, float *gw, float *gb)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < FLAT * CLASSES) {
        float s = 0;
        for (int b = 0; b < B; b++) s += a[b * FLAT + i / CLASSES] * dz[b * CLASSES + i % CLASSES];
        gw[i] = s;
    }
    if (i < CLASSES) {
        float s = 0;
        for (int b = 0; b < B; b++) s += dz[b * CLASSES + i];
        gb[i] = s;
    }
}

__global__ void unpool(const float *dz, const float *w, const int *arg, const float *conv, float *dconv)
{
    int b = blockIdx.x, t = threadIdx.x;
    if (t >= FLAT) return;
    float s = 0;
    for (int k = 0; k < CLASSES; k++) s += dz[b * CLASSES + k] * w[t * CLASSES + k];
    int at = arg[b * FLAT + t];
    dconv[at] = conv[at] > 0 ? s : 0;
}

__global__ void conv_grad(const float *x, const float *dconv, float *gw, float *gb)
{
    int c = blockIdx.x, t = threadIdx.x;           // t over K*K, and one for the bias
    if (t > K * K) return;
    float s = 0;
    for (int b = 0; b < B; b++)
        for (int p = 0; p < CS * CS; p++) {
            float d = dconv[(b * C + c) * CS * CS + p];
            s += t < K * K ? d * x[b * S * S + (p / CS + t / K) * S + p % CS + t % K] : d;
        }
    if (t < K * K) gw[c * K * K + t] = s; else gb[c] = s;
}

__global__ void momentum(float *w, const float *g, float *v, int n, float lr, float mu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = mu * v[i] - lr * g[i];
    w[i] += v[i];
}

int main(int argc, char **argv)
{
    std::mt19937 gen(7);
    const int N = 768;
    // pictures of a bar: upright, level, and the two slants, with noise
    std::vector<float> X(N * S * S); std::vector<int> Y(N);
    std::normal_distribution<float> noise(0, 0.35f);
    for (int n = 0; n < N; n++) {
        int k = gen() % CLASSES, o = 2 + gen() % 6; Y[n] = k;
        for (int r = 0; r < S; r++)
            for (int q = 0; q < S; q++) {
                bool on = k == 0 ? q == o : k == 1 ? r == o : k == 2 ? (r + q) == o + 5 : (r - q) == o - 5;
                X[(n * S + r) * S + q] = (on ? 1.f : 0.f) + noise(gen);
            }
    }
    float *dX, *bx, *conv, *dconv, *pool, *dz, *dl; int *dY, *by, *idx, *arg;
    cudaMalloc(&dX, X.size() * 4); cudaMalloc(&dY, N * 4); cudaMalloc(&idx, N * 4);
    cudaMalloc(&bx, B * S * S * 4); cudaMalloc(&by, B * 4);
    cudaMalloc(&conv, B * C * CS * CS * 4); cudaMalloc(&dconv, B * C * CS * CS * 4);
    cudaMalloc(&pool, B * FLAT * 4); cudaMalloc(&arg, B * FLAT * 4);
    cudaMalloc(&dz, B * CLASSES * 4); cudaMalloc(&dl, B * 4);
    cudaMemcpy(dX, X.data(), X.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dY, Y.data(), N * 4, cudaMemcpyHostToDevice);

    Param cw = make_param(C * K * K, 0.4f, gen), cb = make_param(C, 0, gen);
    Param fw = make_param(FLAT * CLASSES, 0.15f, gen), fb = make_param(CLASSES, 0, gen);
    Param *all[] = {&cw, &cb, &fw, &fb};

    std::vector<int> perm(N);
    for (int i = 0; i < N; i++) perm[i] = i;
    float hl[B];
    for (int epoch = 0; epoch < 4; epoch++) {
        std::shuffle(perm.begin(), perm.end(), gen);
        cudaMemcpy(idx, perm.data(), N * 4, cudaMemcpyHostToDevice);
        double sum = 0;
        for (int it = 0; it < N / B; it++) {
#ifdef ORACLE
            oracle::begin();
#endif
            gather<<<B, 64>>>(dX, dY, idx + it * B, bx, by);
            conv_fwd<<<dim3(B, C), 64>>>(bx, cw.w, cb.w, conv);
            pool_fwd<<<B, 96>>>(conv, pool, arg);
            head<<<B, 32>>>(pool, fw.w, fb.w, by, dz, dl);
            head_grad<<<(FLAT * CLASSES + 127) / 128, 128>>>(pool, dz, fw.g, fb.g);
            cudaMemset(dconv, 0, B * C * CS * CS * 4);
            unpool<<<B, 96>>>(dz, fw.w, arg, conv, dconv);
            conv_grad<<<C, 32>>>(bx, dconv, cw.g, cb.g);
#ifdef ORACLE
            if (oracle::ready())
#endif
            for (Param *p : all) momentum<<<(p->n + 127) / 128, 128>>>(p->w, p->g, p->v, p->n, 0.05f, 0.8f);
#ifdef ORACLE
            oracle::end();
#endif
            cudaMemcpy(hl, dl, sizeof hl, cudaMemcpyDeviceToHost);
            float l = 0;
            for (float v : hl) l += v / B;
            sum += l;
            if (it % 8 == 0) printf("epoch %d iter %d loss %.5f\n", epoch, it, l);
        }
        printf("== epoch %d mean loss %.5f\n", epoch, sum / (N / B));
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    FILE *f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) return 1;
    for (Param *p : all) {
        std::vector<float> h(p->n);
        cudaMemcpy(h.data(), p->w, p->n * 4, cudaMemcpyDeviceToHost);
        fwrite(h.data(), 4, p->n, f);
    }
    fclose(f);
    return 0;
}
