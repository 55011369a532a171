/*
 * Embedding whose rows are held to a norm of at most 1 after each update, among them rows whose words never come; the
 * square of each row is added by atomicAdd (96 adds from 12 blocks). Rate 1e-1.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 480, BATCH = 48, STEPS = 200, V = 96, K = 96, L = 6, C = 4 };

static std::mt19937 engine(1);
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
    float *w, *u, *dw, *du; /* table, classifier, their gradients */
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
pass(net n, const int *token, const int *label, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    token += (first + i) * L;
    float h[K] = {0}, z[C] = {0};
    for (int j = 0; j < L * K; ++j)
        h[j % K] += n.w[token[j / K] * K + j % K] / L;
    for (int c = 0; c < C * K; ++c)
        z[c / K] += n.u[c] * h[c % K];
    atomicAdd(loss, softmax(z, label[first + i], count));
    for (int k = 0; k < K; ++k) {
        float d = 0;
        for (int c = 0; c < C; ++c) {
            atomicAdd(&n.du[c * K + k], z[c] * h[k]);
            d += z[c] * n.u[c * K + k];
        }
        for (int j = 0; j < L; ++j)
            atomicAdd(&n.dw[token[j] * K + k], d / L);
    }
}

/* sum: where not null, the square of each row as it is afterwards */
__global__ void
sgd(float *w, const float *g, float *sum, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    w[i] -= rate * g[i];
    if (sum != nullptr)
        atomicAdd(&sum[i / K], w[i] * w[i]);
}
__global__ void
hold(float *w, const float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    w[i] *= fminf(1, 1 / sqrtf(sum[i / K]));
}

int
main()
{
    net n = {device(V * K, 0.2f), device(C * K, 0.5f), device(V * K, 0), device(C * K, 0)};
    float *sum = device(V, 0);
    std::vector<int> ht(ITEMS * L), hl(ITEMS);
    for (int i = 0; i < ITEMS * L; ++i) { /* a word in two tells the class; the last 16 words never come */
        hl[i / L] = i / L * 5 % C;
        int word = (int)((uniform() + 1) * 40);
        ht[i] = i % 2 ? word / C * C + hl[i / L] : word;
    }
    int *x = upload(ht), *y = upload(hl);
    float *loss = device(1, 0);
    DDP_PARAMETER(n.w, V * K, DDP_FLOAT32);
    DDP_PARAMETER(n.u, C * K, DDP_FLOAT32);
    DDP_GRADIENT(n.dw, V * K, DDP_FLOAT32);
    DDP_GRADIENT(n.du, C * K, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % ITEMS;
        cudaMemsetAsync(n.dw, 0, V * K * sizeof(float));
        cudaMemsetAsync(n.du, 0, C * K * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        pass<<<((int)count + 7) / 8, 8>>>(n, x, y, loss, at + (int)first, (int)count);
        DDP_STEP(0);

        cudaMemsetAsync(sum, 0, V * sizeof(float));
        sgd<<<V * K / 8, 8>>>(n.w, n.dw, sum, 1e-1f);
        sgd<<<C * K / 8, 8>>>(n.u, n.du, nullptr, 1e-1f);
        hold<<<V * K / 8, 8>>>(n.w, sum);

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, n.w, V * K);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
