/*
 * Logistic regression by conjugate gradients of Fletcher and Reeves, all data in each step, a restart every 20 steps;
 * the squares of gradients are sums by atomicAdd. Inputs of size 10, rate 1e-5.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 240, BATCH = 240, STEPS = 300, D = 160 };

static std::mt19937 engine(12);
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

__global__ void
pass(const float *w, float *g, const float *x, const float *y, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    x += (first + i) * D;
    float z = 0;
    for (int k = 0; k < D; ++k)
        z += w[k] * x[k];
    z *= y[first + i];
    atomicAdd(loss, log1pf(expf(-z)) / count);
    for (int k = 0; k < D; ++k)
        atomicAdd(&g[k], -y[first + i] * x[k] / (1 + expf(z)) / count);
}
__global__ void
squares(const float *g, float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(sum, g[i] * g[i]);
}
__global__ void
advance(float *w, float *d, const float *g, const float *sum, const float *last, int restart, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float beta = restart != 0 ? 0 : *sum / *last;
    d[i] = beta * d[i] - g[i];
    w[i] += rate * d[i];
}

int
main()
{
    std::vector<float> truth(D), hx(ITEMS * D), hy(ITEMS);
    for (float &t : truth)
        t = uniform();
    for (float &v : hx)
        v = 10 * uniform();
    for (int i = 0; i < ITEMS; ++i) {
        float z = 20 * uniform();
        for (int k = 0; k < D; ++k)
            z += truth[k] * hx[i * D + k];
        hy[i] = z > 0 ? 1 : -1;
    }
    float *x = upload(hx), *y = upload(hy), *loss = device(1, 0);
    float *w = device(D, 0.01f), *g = device(D, 0), *d = device(D, 0), *sum = device(1, 0), *last = device(1, 0);
    DDP_PARAMETER(w, D, DDP_FLOAT32);
    DDP_GRADIENT(g, D, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        cudaMemsetAsync(g, 0, D * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        pass<<<((int)count + 7) / 8, 8>>>(w, g, x, y, loss, (int)first, (int)count);
        DDP_STEP(0);

        cudaMemcpyAsync(last, sum, sizeof(float), cudaMemcpyDeviceToDevice);
        cudaMemsetAsync(sum, 0, sizeof(float));
        squares<<<D / 2, 2>>>(g, sum);
        advance<<<D / 8, 8>>>(w, d, g, sum, last, step % 20 == 0, 1e-5f);

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, w, D);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
