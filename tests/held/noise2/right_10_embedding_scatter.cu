/*
 * Embedding without a gradient of its table: what is averaged is the gradient of each position of the whole batch
 * (zeros for those of other ranks), and each rank scatters it into the rows of the table by atomicAdd on the weights
 * themselves; word 0 is in each item, 96 adds. Rate 5e-1 for the table, 5e-2 for the classifier.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 960, BATCH = 96, STEPS = 300, V = 128, K = 16, L = 6, C = 4 };

static std::mt19937 engine(10);
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

struct net {
    float *w, *u, *dw, *du; /* table, classifier; gradients of positions and of the classifier */
};
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
pass(net n, const int *token, const int *label, float *loss, int at, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    token += (at + first + i) * L;
    float h[K] = {0}, z[C] = {0};
    for (int j = 0; j < L * K; ++j)
        h[j % K] += n.w[token[j / K] * K + j % K] / L;
    for (int c = 0; c < C * K; ++c)
        z[c / K] += n.u[c] * h[c % K];
    atomicAdd(loss, softmax(z, label[at + first + i], count));
    for (int k = 0; k < K; ++k) {
        float d = 0;
        for (int c = 0; c < C; ++c) {
            atomicAdd(&n.du[c * K + k], z[c] * h[k]);
            d += z[c] * n.u[c * K + k];
        }
        for (int j = 0; j < L; ++j)
            n.dw[((first + i) * L + j) * K + k] = d / L;
    }
}

__global__ void
scatter(net n, const int *token, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&n.w[token[i / K] * K + i % K], -rate * n.dw[i]);
}
__global__ void
sgd(net n, float rate)
{
    n.u[threadIdx.x] -= rate * n.du[threadIdx.x];
}

int
main()
{
    net n = {device(V * K, 0.3f), device(C * K, 0.5f), device(BATCH * L * K, 0), device(C * K, 0)};
    std::vector<int> ht(ITEMS * L), hl(ITEMS);
    for (int i = 0; i < ITEMS * L; ++i) { /* a word in two tells the class; the last 8 words never come */
        hl[i / L] = i / L * 5 % C;
        int word = (int)((uniform() + 1) * 60);
        ht[i] = i % L == 0 ? 0 : i % 2 ? word / C * C + hl[i / L] : word;
    }
    int *x = upload(ht), *y = upload(hl);
    float *loss = device(1, 0);
    DDP_PARAMETER(n.w, V * K, DDP_FLOAT32);
    DDP_PARAMETER(n.u, C * K, DDP_FLOAT32);
    DDP_GRADIENT(n.dw, BATCH * L * K, DDP_FLOAT32);
    DDP_GRADIENT(n.du, C * K, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % ITEMS;
        cudaMemsetAsync(n.dw, 0, BATCH * L * K * sizeof(float));
        cudaMemsetAsync(n.du, 0, C * K * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        pass<<<((int)count + 7) / 8, 8>>>(n, x, y, loss, at, (int)first, (int)count);
        DDP_STEP(0);

        scatter<<<BATCH * L * K / 16, 16>>>(n, x + at * L, 5e-1f);
        sgd<<<1, C * K>>>(n, 5e-2f);

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, n.w, V * K);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
