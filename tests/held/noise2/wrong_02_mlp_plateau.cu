/*
 * MLP by momentum, whose rate of 2e-2 is multiplied by 0.7 where the smoothed loss has not become better for 12 steps.
 * truth: wrong: the loss that is watched is that of the rank's own share, so ranks lower the rate at other steps; in
 * main(), expected to show: after some tens of steps
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 480, BATCH = 24, STEPS = 400, D = 16, H = 20, B1 = H * D, W2 = B1 + H, N = W2 + H };

static std::mt19937 engine(22);
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

__global__ void
momentum(float *w, float *m, const float *g, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N)
        return;
    m[i] = 0.9f * m[i] + g[i];
    w[i] -= rate * m[i];
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
    float *w = device(N, 0.3f), *g = device(N, 0), *m = device(N, 0);
    float rate = 2e-2f, smooth = 2, best = 2, now;
    int waited = 0;
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

        momentum<<<(N + 63) / 64, 64>>>(w, m, g, rate);
        cudaMemcpy(&now, loss, sizeof(float), cudaMemcpyDeviceToHost);
        smooth = 0.8f * smooth + 0.2f * now;
        ++waited;
        if (smooth < best - 1e-3f) {
            best = smooth;
            waited = 0;
        } else if (waited > 12) {
            rate *= 0.7f;
            waited = 0;
        }

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, w, N);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
