/*
 * Softmax regression in the form of weight normalisation, gain * v / |v|: gradients of gain and v come from the mean
 * gradient of the weights, by norms and products that are sums by atomicAdd. Rate 1e-2.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 480, BATCH = 48, STEPS = 400, D = 80, C = 6, N = C * D };

static std::mt19937 engine(6);
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

/* sum: for each row the square of v, then its product with the gradient of the weights */
__global__ void
dots(const float *v, const float *g, float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&sum[i / D], v[i] * v[i]);
    atomicAdd(&sum[C + i / D], v[i] * g[i]);
}
__global__ void
update(float *v, const float *gain, const float *g, const float *sum, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int r = i / D;
    v[i] -= rate * gain[r] / sqrtf(sum[r]) * (g[i] - sum[C + r] / sum[r] * v[i]);
}
__global__ void
update_gain(float *gain, const float *sum, float rate)
{
    int r = threadIdx.x;
    gain[r] -= rate * sum[C + r] / sqrtf(sum[r]);
}
__global__ void
compose(const float *v, const float *gain, const float *sum, float *w)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    w[i] = gain[i / D] * v[i] / sqrtf(sum[i / D]);
}

int
main()
{
    std::vector<float> hx(ITEMS * D), centre(C * D);
    std::vector<int> hy(ITEMS);
    for (float &c : centre)
        c = 0.5f * uniform();
    for (int i = 0; i < ITEMS * D; ++i) {
        hy[i / D] = i / D * 7 % C;
        hx[i] = centre[hy[i / D] * D + i % D] + 1.0f * uniform();
    }
    float *x = upload(hx), *loss = device(1, 0);
    int *y = upload(hy);
    float *v = device(C * D, 0.5f), *gain = upload(std::vector<float>(C, 1.0f)), *sum = device(2 * C, 0);
    float *w = device(N, 0), *g = device(N, 0); /* w: gain * v / |v| */
    DDP_PARAMETER(v, C * D, DDP_FLOAT32);
    DDP_PARAMETER(gain, C, DDP_FLOAT32);
    DDP_GRADIENT(g, N, DDP_FLOAT32);
    dots<<<C * D / 4, 4>>>(v, g, sum);
    compose<<<C * D / 4, 4>>>(v, gain, sum, w);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % ITEMS;
        cudaMemsetAsync(g, 0, N * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        pass<<<((int)count + 7) / 8, 8>>>(w, g, x, y, loss, at + (int)first, (int)count);
        DDP_STEP(0);

        cudaMemsetAsync(sum, 0, 2 * C * sizeof(float));
        dots<<<C * D / 4, 4>>>(v, g, sum);
        update<<<C * D / 4, 4>>>(v, gain, g, sum, 1e-2f);
        update_gain<<<1, C>>>(gain, sum, 1e-2f);
        cudaMemsetAsync(sum, 0, 2 * C * sizeof(float));
        dots<<<C * D / 4, 4>>>(v, g, sum);
        compose<<<C * D / 4, 4>>>(v, gain, sum, w);

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, w, N);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
