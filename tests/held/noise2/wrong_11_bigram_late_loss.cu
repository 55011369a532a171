/*
 * Bigram model with one table for input and output; an auxiliary loss, of weight 0.01, pulls the rows of the four
 * special words to those of the words that came before them. Rate 5e-2.
 * truth: wrong: the gradient of the auxiliary loss is added after DDP_STEP, so rows 0 to 3 follow the rank's own share
 * in part; in main(), expected to show: slowly, in 4 of 48 rows
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 960, BATCH = 96, STEPS = 300, C = 48, K = 12, SPECIAL = 4, N = C * K };

static std::mt19937 engine(31);
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
pass(const float *w, float *g, const int *word, const int *next, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int t = word[first + i] * K;
    float z[C] = {0}, d[K] = {0};
    for (int c = 0; c < N; ++c)
        z[c / K] += w[c] * w[t + c % K];
    atomicAdd(loss, softmax(z, next[first + i], count));
    for (int c = 0; c < N; ++c) {
        d[c % K] += z[c / K] * w[c];
        atomicAdd(&g[c], z[c / K] * w[t + c % K]);
    }
    for (int k = 0; k < K; ++k)
        atomicAdd(&g[t + k], d[k]);
}
__global__ void
pull(const float *w, float *g, const int *word, const int *next, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count || next[first + i] >= SPECIAL)
        return;
    for (int k = 0; k < K; ++k) {
        int to = next[first + i] * K + k;
        atomicAdd(&g[to], 0.01f * (w[to] - w[word[first + i] * K + k]) / count);
    }
}
__global__ void
sgd(float *w, const float *g, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    w[i] -= rate * g[i];
}

int
main()
{
    std::vector<int> hx(ITEMS), hy(ITEMS);
    for (int i = 0; i < ITEMS; ++i) {
        hx[i] = (int)((uniform() + 1) * 24) % C;
        hy[i] = i % 3 == 0 ? (hx[i] * 5 + 1) % C : i % 3 == 1 ? hx[i] % SPECIAL : (int)((uniform() + 1) * 24) % C;
    }
    int *x = upload(hx), *y = upload(hy);
    float *w = device(N, 0.5f), *g = device(N, 0), *loss = device(1, 0);
    DDP_PARAMETER(w, N, DDP_FLOAT32);
    DDP_GRADIENT(g, N, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % ITEMS;
        cudaMemsetAsync(g, 0, N * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        pass<<<((int)count + 7) / 8, 8>>>(w, g, x, y, loss, at + (int)first, (int)count);
        DDP_STEP(0);

        pull<<<((int)count + 7) / 8, 8>>>(w, g, x, y, at + (int)first, (int)count);
        sgd<<<N / 8, 8>>>(w, g, 5e-2f);

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, w, N);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
