/*
 * Embedding of texts of different length with dropout of words, by SGD with noise (Langevin dynamics); one generator,
 * with the same seed on all ranks, serves both. Rate 2e-1.
 * truth: wrong: the generator draws the mask of the words of the rank's own share first, of which there are more or
 * fewer on each rank, so the noise after DDP_STEP is no longer the same on all ranks; in main(), expected to show: at
 * once
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 480, BATCH = 48, STEPS = 300, V = 64, K = 8, L = 10, C = 4, N = V * K + C * K };

static std::mt19937 engine(27);
static float
uniform()
{
    return std::uniform_real_distribution<float>(-1, 1)(engine);
}
template <typename T>
static T *
upload(const std::vector<T> &host)
{
    T *p;
    cudaMalloc(&p, host.size() * sizeof(T));
    cudaMemcpy(p, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
    return p;
}
static float *
device(size_t n, float scale)
{
    std::vector<float> h(n);
    for (float &x : h)
        x = scale * uniform();
    return upload(h);
}
static void
report(int step, const float *loss, const float *w, int n)
{
    std::vector<float> h(n + 1);
    cudaMemcpy(&h[0], w, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(&h[n], loss, sizeof(float), cudaMemcpyDeviceToHost);
    double square = 0;
    for (int i = 0; i < n; ++i)
        square += (double)h[i] * h[i];
    DDP_MEAN(&h[n]);
    if (DDP_RANK() == 0)
        printf("step %d loss %g weights %.15g\n", step, h[n], sqrt(square));
}

/* Logits become the gradient of a mean over count items; returns the item's part of the loss. */
__device__ float
softmax(float *z, int label, int count)
{
    float top = z[0], sum = 0;
    for (int c = 1; c < C; ++c)
        top = fmaxf(top, z[c]);
    for (int c = 0; c < C; ++c)
        sum += expf(z[c] - top);
    float loss = (logf(sum) + top - z[label]) / count;
    for (int c = 0; c < C; ++c)
        z[c] = (expf(z[c] - top) / sum - (c == label)) / count;
    return loss;
}
__global__ void
pass(const float *w, float *g, const int *token, const int *length, const int *label, const float *keep, float *loss,
     int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    token += (first + i) * L;
    keep += (first + i) * L;
    const float *u = w + V * K;
    int n = length[first + i];
    float h[K] = {0}, z[C] = {0};
    for (int j = 0; j < n * K; ++j)
        h[j % K] += keep[j / K] * w[token[j / K] * K + j % K] / n;
    for (int c = 0; c < C * K; ++c)
        z[c / K] += u[c] * h[c % K];
    atomicAdd(loss, softmax(z, label[first + i], count));
    for (int k = 0; k < K; ++k) {
        float d = 0;
        for (int c = 0; c < C; ++c) {
            atomicAdd(&g[V * K + c * K + k], z[c] * h[k]);
            d += z[c] * u[c * K + k];
        }
        for (int j = 0; j < n; ++j)
            atomicAdd(&g[token[j] * K + k], keep[j] * d / n);
    }
}
__global__ void
langevin(float *w, const float *g, const float *noise, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N)
        w[i] -= rate * g[i] + noise[i];
}

int
main()
{
    std::vector<int> ht(ITEMS * L), hn(ITEMS), hl(ITEMS);
    for (int i = 0; i < ITEMS * L; ++i) { /* a word in two tells the class */
        hl[i / L] = i / L * 5 % C;
        hn[i / L] = 3 + (int)((uniform() + 1) * 3.5f);
        int word = (int)((uniform() + 1) * 32) % V;
        ht[i] = i % 2 ? word / C * C + hl[i / L] : word;
    }
    int *x = upload(ht), *length = upload(hn), *y = upload(hl);
    float *w = device(N, 0.3f), *g = device(N, 0), *loss = device(1, 0);
    float *keep = device(ITEMS * L, 0), *noise = device(N, 0);
    std::vector<float> hk(ITEMS * L), hz(N);
    DDP_PARAMETER(w, N, DDP_FLOAT32);
    DDP_GRADIENT(g, N, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % ITEMS;
        cudaMemsetAsync(g, 0, N * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        for (int i = at + (int)first; i < at + (int)(first + count); ++i)
            for (int j = 0; j < hn[i]; ++j)
                hk[i * L + j] = uniform() < 0.6f ? 1.25f : 0;
        cudaMemcpy(keep, hk.data(), hk.size() * sizeof(float), cudaMemcpyHostToDevice);
        pass<<<((int)count + 7) / 8, 8>>>(w, g, x, length, y, keep, loss, at + (int)first, (int)count);
        DDP_STEP(0);

        for (float &z : hz)
            z = 1e-3f * uniform();
        cudaMemcpy(noise, hz.data(), N * sizeof(float), cudaMemcpyHostToDevice);
        langevin<<<(N + 63) / 64, 64>>>(w, g, noise, 2e-1f);

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, w, N);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
