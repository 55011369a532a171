/*
 * Tagger of words in texts of different length: gradients are sums over words, and are divided by the number of words
 * in the update; rows are held to a norm of at most 0.6 by sums by atomicAdd. Rate 5e-1.
 * truth: wrong: the number of words is that of the rank's own share, so ranks divide the same mean gradient by numbers
 * that differ by some percent; in main(), expected to show: at once
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 480, BATCH = 96, STEPS = 300, V = 64, K = 64, L = 8, C = 3, N = V * K + C * K };

static std::mt19937 engine(30);
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
/* a thread for each word; its tag follows from it and from the word before it */
__global__ void
pass(const float *w, float *g, const int *token, const int *length, const int *tag, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count * L || i % L >= length[first + i / L])
        return;
    int at = first * L + i, a = token[at] * K, b = i % L > 0 ? token[at - 1] * K : 0;
    float z[C] = {0};
    for (int c = 0; c < C * K; ++c)
        z[c / K] += w[V * K + c] * (w[a + c % K] + 0.5f * w[b + c % K]);
    atomicAdd(loss, softmax(z, tag[at], 1) / count);
    for (int k = 0; k < K; ++k) {
        float d = 0;
        for (int c = 0; c < C; ++c) {
            atomicAdd(&g[V * K + c * K + k], z[c] * (w[a + k] + 0.5f * w[b + k]));
            d += z[c] * w[V * K + c * K + k];
        }
        atomicAdd(&g[a + k], d);
        atomicAdd(&g[b + k], 0.5f * d);
    }
}
__global__ void
sgd(float *w, const float *g, float *sum, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    w[i] -= rate * g[i];
    if (i < V * K)
        atomicAdd(&sum[i / K], w[i] * w[i]);
}
__global__ void
hold(float *w, const float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    w[i] *= fminf(1, 0.6f / sqrtf(sum[i / K]));
}

int
main()
{
    std::vector<int> ht(ITEMS * L), hn(ITEMS), hy(ITEMS * L);
    for (int i = 0; i < ITEMS * L; ++i) {
        hn[i / L] = i % L ? hn[i / L] : 2 + (int)((uniform() + 1) * 3.4f);
        ht[i] = (int)((uniform() + 1) * 32) % V;
        hy[i] = (ht[i] + (i % L && ht[i - 1] > 32)) % C;
    }
    int *x = upload(ht), *length = upload(hn), *y = upload(hy);
    float *w = device(N, 0.15f), *g = device(N, 0), *loss = device(1, 0), *sum = device(V, 0);
    DDP_PARAMETER(w, N, DDP_FLOAT32);
    DDP_GRADIENT(g, N, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % ITEMS;
        cudaMemsetAsync(g, 0, N * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        pass<<<(int)count, L>>>(w, g, x, length, y, loss, at + (int)first, (int)count);
        DDP_STEP(0);

        int words = 0;
        for (size_t i = at + first; i < at + first + count; ++i)
            words += hn[i];
        cudaMemsetAsync(sum, 0, V * sizeof(float));
        sgd<<<N / 2, 2>>>(w, g, sum, 5e-1f / words);
        hold<<<V * K / 8, 8>>>(w, sum);

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, w, N);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
