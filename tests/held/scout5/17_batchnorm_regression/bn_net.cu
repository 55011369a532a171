// Regression net with batch normalization and dropout. The table is kept on the GPU; a gather kernel makes the batch
// from a shuffled index list (uploaded once an epoch). RMSprop. Validation uses the running statistics.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#define BLOCK 128
#define GRID(n) (((n) + BLOCK - 1) / BLOCK)
#define OK(c) do { if ((c) != cudaSuccess) { fprintf(stderr, "cuda error, line %d\n", __LINE__); exit(1); } } while (0)

struct Args {
    int batch = 80, epochs = 6, hidden = 32, features = 10;
    float lr = 0.01f, keep = 0.9f;
};

static Args parse(int argc, char **argv)
{
    Args a;
    if (argc > 1) a.batch = atoi(argv[1]);
    if (argc > 2) a.epochs = atoi(argv[2]);
    if (argc > 3) a.lr = (float)atof(argv[3]);
    return a;
}

__global__ void gather(const float *X, const float *Y, const int *idx, float *x, float *y, int n, int f)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * f) x[i] = X[idx[i / f] * f + i % f];
    if (i < n) y[i] = Y[idx[i]];
}
__global__ void affine(const float *x, const float *w, float *z, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    float a = 0;
    for (int k = 0; k < in; k++) a += x[i / out * in + k] * w[k * out + i % out];
    z[i] = a;
}
// a block for each feature
__global__ void bn_train(const float *z, const float *gamma, const float *beta, float *xhat, float *out, float *inv_std,
                         float *run_mean, float *run_var, int n, int h)
{
    __shared__ float s1[BLOCK], s2[BLOCK];
    int c = blockIdx.x;
    float a = 0, b = 0;
    for (int r = threadIdx.x; r < n; r += BLOCK) {
        a += z[r * h + c];
        b += z[r * h + c] * z[r * h + c];
    }
    s1[threadIdx.x] = a;
    s2[threadIdx.x] = b;
    __syncthreads();
    for (int k = BLOCK / 2; k; k >>= 1) {
        if (threadIdx.x < k) {
            s1[threadIdx.x] += s1[threadIdx.x + k];
            s2[threadIdx.x] += s2[threadIdx.x + k];
        }
        __syncthreads();
    }
    float mean = s1[0] / n, var = s2[0] / n - mean * mean, is = rsqrtf(var + 1e-5f);
    for (int r = threadIdx.x; r < n; r += BLOCK) {
        xhat[r * h + c] = (z[r * h + c] - mean) * is;
        out[r * h + c] = gamma[c] * xhat[r * h + c] + beta[c];
    }
    if (threadIdx.x == 0) {
        inv_std[c] = is;
        run_mean[c] = 0.9f * run_mean[c] + 0.1f * mean;
        run_var[c] = 0.9f * run_var[c] + 0.1f * var;
    }
}
__global__ void bn_infer(const float *z, const float *gamma, const float *beta, const float *run_mean, const float *run_var, float *out, int n, int h)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * h) {
        int c = i % h;
        float v = gamma[c] * (z[i] - run_mean[c]) * rsqrtf(run_var[c] + 1e-5f) + beta[c];
        out[i] = fmaxf(v, 0.f);
    }
}
__device__ float hash01(uint32_t a, uint32_t b)
{
    uint32_t x = a * 0x9E3779B9u ^ (b + 0x7F4A7C15u);
    x ^= x >> 16; x *= 0x85EBCA6Bu; x ^= x >> 13; x *= 0xC2B2AE35u; x ^= x >> 16;
    return x / 4294967296.0f;
}
__global__ void relu_dropout(float *a, unsigned char *mask, int n, float keep, uint32_t seed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        mask[i] = a[i] > 0 && hash01(i, seed) < keep;
        a[i] = mask[i] ? a[i] / keep : 0;
    }
}
__global__ void relu_dropout_bwd(float *d, const unsigned char *mask, int n, float keep)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] = mask[i] ? d[i] / keep : 0;
}
__global__ void head(const float *a, const float *w, const float *y, float *d, float *loss, int n, int h)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n) return;
    float p = w[h];
    for (int k = 0; k < h; k++) p += a[s * h + k] * w[k];
    float e = p - y[s];
    atomicAdd(loss, e * e);
    if (d) d[s] = e;
}
__global__ void head_bwd(const float *a, const float *d, const float *w, float *gw, float *da, int n, int h)
{
    int k = threadIdx.x; // h + 1 threads, the last is the bias
    float g = 0;
    for (int s = 0; s < n; s++) {
        g += d[s] * (k < h ? a[s * h + k] : 1.f);
        if (k < h) da[s * h + k] = d[s] * w[k];
    }
    gw[k] = g / n;
}
__global__ void bn_bwd(const float *dout, const float *xhat, const float *gamma, const float *inv_std, float *dz, float *ggamma, float *gbeta, int n, int h)
{
    __shared__ float s1[BLOCK], s2[BLOCK];
    int c = blockIdx.x;
    float a = 0, b = 0;
    for (int r = threadIdx.x; r < n; r += BLOCK) {
        a += dout[r * h + c];
        b += dout[r * h + c] * xhat[r * h + c];
    }
    s1[threadIdx.x] = a;
    s2[threadIdx.x] = b;
    __syncthreads();
    for (int k = BLOCK / 2; k; k >>= 1) {
        if (threadIdx.x < k) {
            s1[threadIdx.x] += s1[threadIdx.x + k];
            s2[threadIdx.x] += s2[threadIdx.x + k];
        }
        __syncthreads();
    }
    for (int r = threadIdx.x; r < n; r += BLOCK)
        dz[r * h + c] = gamma[c] * inv_std[c] * (dout[r * h + c] - s1[0] / n - xhat[r * h + c] * s2[0] / n);
    if (threadIdx.x == 0) {
        gbeta[c] = s1[0] / n;
        ggamma[c] = s2[0] / n;
    }
}
__global__ void affine_bwd(const float *x, const float *dz, float *gw, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    float g = 0;
    for (int s = 0; s < n; s++) g += x[s * in + i / out] * dz[s * out + i % out];
    gw[i] = g / n;
}
__global__ void rmsprop(float *w, const float *g, float *cache, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        cache[i] = 0.95f * cache[i] + 0.05f * g[i] * g[i];
        w[i] -= lr * g[i] / (sqrtf(cache[i]) + 1e-6f);
    }
}

static float *fill(int n, float value)
{
    std::vector<float> h(n, value);
    float *p;
    OK(cudaMalloc(&p, n * sizeof(float)));
    OK(cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    return p;
}

int main(int argc, char **argv)
{
    Args a = parse(argc, argv);
    const int N = 1600, NV = 320, F = a.features, H = a.hidden, B = a.batch;
    std::mt19937 rng(12);
    std::uniform_real_distribution<float> u(-1, 1);
    std::normal_distribution<float> g01(0, 1);
    std::vector<float> X((N + NV) * F), Y(N + NV);
    for (int i = 0; i < N + NV; i++) { // Friedman #1
        float *x = &X[i * F];
        for (int f = 0; f < F; f++) x[f] = 0.5f + 0.5f * u(rng);
        Y[i] = (10 * std::sin(3.1416f * x[0] * x[1]) + 20 * (x[2] - 0.5f) * (x[2] - 0.5f) + 10 * x[3] + 5 * x[4] + g01(rng) - 14.4f) / 4.9f;
    }

    float *dX = fill((N + NV) * F, 0), *dY = fill(N + NV, 0);
    OK(cudaMemcpy(dX, X.data(), X.size() * sizeof(float), cudaMemcpyHostToDevice));
    OK(cudaMemcpy(dY, Y.data(), Y.size() * sizeof(float), cudaMemcpyHostToDevice));

    // w1, gamma, beta, w2 (with bias)
    float *w1 = fill(F * H, 0), *gamma = fill(H, 1), *beta = fill(H, 0), *w2 = fill(H + 1, 0);
    std::vector<float> init(F * H);
    for (float &v : init) v = u(rng) * std::sqrt(3.0f / F);
    OK(cudaMemcpy(w1, init.data(), F * H * sizeof(float), cudaMemcpyHostToDevice));
    init.resize(H);
    for (float &v : init) v = u(rng) * std::sqrt(3.0f / H);
    OK(cudaMemcpy(w2, init.data(), H * sizeof(float), cudaMemcpyHostToDevice));
    float *gw1 = fill(F * H, 0), *ggamma = fill(H, 0), *gbeta = fill(H, 0), *gw2 = fill(H + 1, 0);
    float *cw1 = fill(F * H, 0), *cgamma = fill(H, 0), *cbeta = fill(H, 0), *cw2 = fill(H + 1, 0);
    float *run_mean = fill(H, 0), *run_var = fill(H, 1), *inv_std = fill(H, 0);
    float *x = fill(B * F, 0), *y = fill(B, 0), *z = fill(B * H, 0), *xhat = fill(B * H, 0), *act = fill(B * H, 0);
    float *d = fill(B, 0), *dact = fill(B * H, 0), *dz = fill(B * H, 0), *loss = fill(1, 0);
    float *zv = fill(NV * H, 0), *av = fill(NV * H, 0);
    unsigned char *mask;
    int *d_idx;
    OK(cudaMalloc(&mask, B * H));
    OK(cudaMalloc(&d_idx, N * sizeof(int)));

    std::vector<int> idx(N);
    std::iota(idx.begin(), idx.end(), 0);
    uint32_t seed = 1;
    for (int epoch = 0; epoch < a.epochs; epoch++) {
        std::shuffle(idx.begin(), idx.end(), rng);
        OK(cudaMemcpy(d_idx, idx.data(), N * sizeof(int), cudaMemcpyHostToDevice));
        OK(cudaMemset(loss, 0, sizeof(float)));
        int seen = 0;
        for (int b = 0; b < N / B; b++, seen += B) {
            gather<<<GRID(B * F), BLOCK>>>(dX, dY, d_idx + b * B, x, y, B, F);
            affine<<<GRID(B * H), BLOCK>>>(x, w1, z, B, F, H);
            bn_train<<<H, BLOCK>>>(z, gamma, beta, xhat, act, inv_std, run_mean, run_var, B, H);
            relu_dropout<<<GRID(B * H), BLOCK>>>(act, mask, B * H, a.keep, seed++);
            head<<<GRID(B), BLOCK>>>(act, w2, y, d, loss, B, H);
            head_bwd<<<1, H + 1>>>(act, d, w2, gw2, dact, B, H);
            relu_dropout_bwd<<<GRID(B * H), BLOCK>>>(dact, mask, B * H, a.keep);
            bn_bwd<<<H, BLOCK>>>(dact, xhat, gamma, inv_std, dz, ggamma, gbeta, B, H);
            affine_bwd<<<GRID(F * H), BLOCK>>>(x, dz, gw1, B, F, H);
            rmsprop<<<GRID(F * H), BLOCK>>>(w1, gw1, cw1, F * H, a.lr);
            rmsprop<<<GRID(H), BLOCK>>>(gamma, ggamma, cgamma, H, a.lr);
            rmsprop<<<GRID(H), BLOCK>>>(beta, gbeta, cbeta, H, a.lr);
            rmsprop<<<GRID(H + 1), BLOCK>>>(w2, gw2, cw2, H + 1, a.lr);
        }
        float train_loss, val_loss;
        OK(cudaMemcpy(&train_loss, loss, sizeof(float), cudaMemcpyDeviceToHost));
        OK(cudaMemset(loss, 0, sizeof(float)));
        affine<<<GRID(NV * H), BLOCK>>>(dX + N * F, w1, zv, NV, F, H);
        bn_infer<<<GRID(NV * H), BLOCK>>>(zv, gamma, beta, run_mean, run_var, av, NV, H);
        head<<<GRID(NV), BLOCK>>>(av, w2, dY + N, nullptr, loss, NV, H);
        OK(cudaMemcpy(&val_loss, loss, sizeof(float), cudaMemcpyDeviceToHost));
        printf("epoch %d train loss %.4f validation loss %.4f\n", epoch, train_loss / seen, val_loss / NV);
        a.lr *= 0.7f;
    }
    for (float *p : {dX, dY, w1, gamma, beta, w2, gw1, ggamma, gbeta, gw2, cw1, cgamma, cbeta, cw2, run_mean, run_var, inv_std, x, y, z, xhat, act, d, dact, dz, loss, zv, av})
        cudaFree(p);
    cudaFree(mask);
    cudaFree(d_idx);
    return 0;
}
