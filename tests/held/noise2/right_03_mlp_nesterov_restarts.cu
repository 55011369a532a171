/*
 * MLP on a stream of its own, by momentum as of Nesterov under a cosine schedule with three warm restarts from 1e-1;
 * the gradient of each of the three tensors is clipped to a norm that is a sum by atomicAdd.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 480, BATCH = 48, STEPS = 600, D = 16, H = 20, B1 = H * D, W2 = B1 + H, N = W2 + H };

static std::mt19937 engine(3);
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
    float h[H], z = -y[first + i];
    for (int j = 0; j < H; ++j) {
        h[j] = w[B1 + j];
        for (int k = 0; k < D; ++k)
            h[j] += w[j * D + k] * x[k];
        h[j] = tanhf(h[j]);
        z += w[W2 + j] * h[j];
    }
    atomicAdd(loss, z * z / 2 / count);
    for (int j = 0; j < H; ++j) {
        float d = z / count * w[W2 + j] * (1 - h[j] * h[j]);
        atomicAdd(&g[W2 + j], z / count * h[j]);
        atomicAdd(&g[B1 + j], d);
        for (int k = 0; k < D; ++k)
            atomicAdd(&g[j * D + k], d * x[k]);
    }
}

__device__ int
layer(int i)
{
    return (i >= B1) + (i >= W2);
}
__global__ void
squares(const float *g, float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N)
        atomicAdd(&sum[layer(i)], g[i] * g[i]);
}
__global__ void
nesterov(float *w, float *m, const float *g, const float *sum, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N)
        return;
    float clipped = g[i] * fminf(1, 0.05f / sqrtf(sum[layer(i)] + 1e-20f));
    m[i] = 0.9f * m[i] + clipped;
    w[i] -= rate * (clipped + 0.9f * m[i]);
}

int
main()
{
    std::vector<float> hx(ITEMS * D), hy(ITEMS);
    for (float &v : hx)
        v = uniform();
    for (int i = 0; i < ITEMS; ++i)
        hy[i] = sinf(2 * hx[i * D] + hx[i * D + 1]) + hx[i * D + 2] * hx[i * D + 3] + 0.3f * uniform();
    float *x = upload(hx), *y = upload(hy), *loss = device(1, 0);
    float *w = device(N, 0.3f), *g = device(N, 0), *m = device(N, 0), *sum = device(3, 0);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    const int begin[] = {0, B1, W2, N};
    for (int l = 0; l < 3; ++l) {
        DDP_PARAMETER(w + begin[l], begin[l + 1] - begin[l], DDP_FLOAT32);
        DDP_GRADIENT(g + begin[l], begin[l + 1] - begin[l], DDP_FLOAT32);
    }
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % ITEMS;
        cudaMemsetAsync(g, 0, N * sizeof(float), stream);
        cudaMemsetAsync(loss, 0, sizeof(float), stream);
        pass<<<((int)count + 7) / 8, 8, 0, stream>>>(w, g, x, y, loss, at + (int)first, (int)count);
        DDP_STEP(stream);

        float rate = 1e-1f * 0.5f * (1 + cosf(3.14159265f * (step % 150) / 150));
        cudaMemsetAsync(sum, 0, 3 * sizeof(float), stream);
        squares<<<(N + 3) / 4, 4, 0, stream>>>(g, sum);
        nesterov<<<(N + 63) / 64, 64, 0, stream>>>(w, m, g, sum, rate);

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            cudaStreamSynchronize(stream), report(step, loss, w, N);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
