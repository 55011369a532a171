/*
 * Softmax regression by AMSGrad; of the gradient of each output its mean is taken off and it is divided by its
 * deviation, both sums by atomicAdd over 96 inputs. Rate 1e-3, and no state is annotated.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 240, BATCH = 24, STEPS = 2000, D = 96, C = 3, N = C * D };

static std::mt19937 engine(7);
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
pass(const float *w, float *g, const float *x, const int *y, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    x += (first + i) * D;
    float z[C] = {0};
    for (int c = 0; c < C * D; ++c)
        z[c / D] += w[c] * x[c % D];
    atomicAdd(loss, softmax(z, y[first + i], count));
    for (int c = 0; c < C * D; ++c)
        atomicAdd(&g[c], z[c / D] * x[c % D]);
}

__global__ void
mean(const float *g, float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&sum[i / D], g[i] / D);
}
__global__ void
deviation(float *g, float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    g[i] -= sum[i / D];
    atomicAdd(&sum[C + i / D], g[i] * g[i] / D);
}
__global__ void
amsgrad(float *w, float *m, float *v, float *top, const float *g, const float *sum, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N)
        return;
    float d = g[i] / sqrtf(sum[C + i / D] + 1e-6f);
    m[i] = 0.9f * m[i] + 0.1f * d;
    v[i] = 0.99f * v[i] + 0.01f * d * d;
    top[i] = fmaxf(top[i], v[i]);
    w[i] -= rate * m[i] / (sqrtf(top[i]) + 1e-4f);
}

int
main()
{
    std::vector<float> hx(ITEMS * D), centre(C * D);
    std::vector<int> hy(ITEMS);
    for (float &c : centre)
        c = 0.3f * uniform();
    for (int i = 0; i < ITEMS * D; ++i) {
        hy[i / D] = i / D * 7 % C;
        hx[i] = centre[hy[i / D] * D + i % D] + 1.0f * uniform();
    }
    float *x = upload(hx), *loss = device(1, 0);
    int *y = upload(hy);
    float *w = device(N, 0.2f), *g = device(N, 0), *sum = device(2 * C, 0);
    float *m = device(N, 0), *v = device(N, 0), *top = device(N, 0);
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

        cudaMemsetAsync(sum, 0, 2 * C * sizeof(float));
        mean<<<C * D / 4, 4>>>(g, sum);
        deviation<<<C * D / 4, 4>>>(g, sum);
        amsgrad<<<(N + 63) / 64, 64>>>(w, m, v, top, g, sum, 1e-3f);

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, w, N);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
