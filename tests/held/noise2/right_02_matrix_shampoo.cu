/*
 * Linear map by a one-sided Shampoo: the mean of G G^T, its trace, its inverse square root by Newton and Schulz, and
 * the step, straight into the weights, are sums by atomicAdd. Rate 3e-2.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 480, BATCH = 48, STEPS = 120, D = 64, C = 16, N = C * D };

static std::mt19937 engine(2);
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
outer(const float *g, float *l) /* a thread for each product */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int k = i / (C * C), a = i / C % C, b = i % C;
    atomicAdd(&l[a * C + b], 0.1f * g[a * D + k] * g[b * D + k]);
}
__global__ void
trace(const float *l, float *sum)
{
    atomicAdd(sum, l[blockIdx.x * C + blockIdx.x] / C);
}
__global__ void
damp(float *l, float *y, float *z, const float *sum) /* the trace of y is 1 */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    z[i] = i / C == i % C;
    y[i] = (l[i] / *sum + 0.1f * z[i]) / (1.1f * C);
    l[i] *= 0.9f;
}
__global__ void
product(const float *a, const float *b, float *to, float factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int k = i / (C * C), r = i / C % C, c = i % C;
    atomicAdd(&to[r * C + c], factor * a[r * C + k] * b[k * C + c] + (k == 0 && r == c && factor < 0 ? 1.5f : 0));
}
__global__ void
step_by(float *w, const float *z, const float *g, const float *sum, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = i / (C * D), r = i / D % C, k = i % D;
    atomicAdd(&w[r * D + k], -rate * z[r * C + j] * g[j * D + k] / sqrtf(1.1f * C * *sum));
}

int
main()
{
    std::vector<float> hx(ITEMS * D), hy(ITEMS * C), truth(C * D);
    for (float &t : truth)
        t = uniform();
    for (float &v : hx)
        v = 1 * uniform();
    for (int i = 0; i < ITEMS * C; ++i) {
        hy[i] = 0.1f * uniform();
        for (int k = 0; k < D; ++k)
            hy[i] += truth[i % C * D + k] * hx[i / C * D + k];
    }
    float *x = upload(hx), *y = upload(hy), *loss = device(1, 0);
    float *w = device(N, 0.1f), *g = device(N, 0), *l = device(C * C, 0), *sum = device(1, 0);
    float *p[3] = {device(C * C, 0), device(C * C, 0), device(C * C, 0)}, *q[2] = {device(C * C, 0), device(C * C, 0)};
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
        cudaMemsetAsync(sum, 0, sizeof(float));
        outer<<<D * C * C / 8, 8>>>(g, l);
        trace<<<C, 1>>>(l, sum);
        damp<<<1, C * C>>>(l, p[0], p[1], sum);
        for (int k = 0; k < 9; ++k) { /* p[1] goes to the inverse square root of p[0] */
            cudaMemsetAsync(p[2], 0, C * C * sizeof(float));
            cudaMemsetAsync(q[0], 0, C * C * sizeof(float));
            cudaMemsetAsync(q[1], 0, C * C * sizeof(float));
            product<<<C * C * C / 16, 16>>>(p[1], p[0], p[2], -0.5f);
            product<<<C * C * C / 16, 16>>>(p[0], p[2], q[0], 1);
            product<<<C * C * C / 16, 16>>>(p[2], p[1], q[1], 1);
            std::swap(p[0], q[0]);
            std::swap(p[1], q[1]);
        }
        step_by<<<C * C * D / 8, 8>>>(w, p[1], g, sum, 3e-2f);

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, w, N);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
