/*
 * Linear regression with a group lasso: after each step a proximal one, which shortens each of four groups of 64
 * weights by a norm that is a sum by atomicAdd; two groups become zero. Inputs of size 10, rate 1e-4.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 480, BATCH = 480, STEPS = 300, D = 256, C = 1, GROUPS = 4, N = C * D };

static std::mt19937 engine(8);
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
    for (int c = 0; c < C; ++c) {
        float r = -y[(first + i) * C + c];
        for (int k = 0; k < D; ++k)
            r += w[c * D + k] * x[k];
        atomicAdd(loss, r * r / 2 / count);
        for (int k = 0; k < D; ++k)
            atomicAdd(&g[c * D + k], r * x[k] / count);
    }
}

__global__ void
sgd(float *w, const float *g, float *sum, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    w[i] -= rate * g[i];
    atomicAdd(&sum[i / (N / GROUPS)], w[i] * w[i]);
}
__global__ void
shorten(float *w, const float *sum, float by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float norm = sqrtf(sum[i / (N / GROUPS)]);
    w[i] = norm > by ? w[i] * (1 - by / norm) : 0;
}

int
main()
{
    std::vector<float> hx(ITEMS * D), hy(ITEMS * C), truth(C * D);
    for (float &t : truth)
        t = &t < &truth[D / 2] ? uniform() : 0; /* the other half says nothing */
    for (float &v : hx)
        v = 10 * uniform();
    for (int i = 0; i < ITEMS * C; ++i) {
        hy[i] = 0.1f * uniform();
        for (int k = 0; k < D; ++k)
            hy[i] += truth[i % C * D + k] * hx[i / C * D + k];
    }
    float *x = upload(hx), *y = upload(hy), *loss = device(1, 0);
    float *w = device(N, 0.1f), *g = device(N, 0), *sum = device(GROUPS, 0);
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

        cudaMemsetAsync(sum, 0, GROUPS * sizeof(float));
        sgd<<<N / 2, 2>>>(w, g, sum, 1e-4f);
        shorten<<<N / 2, 2>>>(w, sum, 8e-3f);

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, w, N);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
