/*
 * MLP with rectifiers, whose gradient is clipped to a norm that is a sum by atomicAdd; every 10 steps units that less
 * than a twentieth of the items has made active are drawn anew, by a generator that is the same on all ranks. Rate
 * 2e-2.
 * truth: wrong: what counts is how often a unit was active in the rank's own share, so one rank draws a unit anew that
 * another keeps; in main(), expected to show: from step 10 on, in one or a few units
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 480, BATCH = 48, STEPS = 400, D = 16, H = 24, B1 = H * D, W2 = B1 + H, N = W2 + H };

static std::mt19937 engine(28);
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
pass(const float *w, float *g, const float *x, const float *y, float *loss, int *active, int first, int count)
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
        h[j] = fmaxf(h[j], 0);
        z += w[W2 + j] * h[j];
        atomicAdd(&active[j], h[j] > 0);
    }
    atomicAdd(loss, z * z / 2 / count);
    for (int j = 0; j < H; ++j) {
        float d = z / count * w[W2 + j] * (h[j] > 0);
        atomicAdd(&g[W2 + j], z / count * h[j]);
        atomicAdd(&g[B1 + j], d);
        for (int k = 0; k < D; ++k)
            atomicAdd(&g[j * D + k], d * x[k]);
    }
}

__global__ void
squares(const float *g, float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N)
        atomicAdd(sum, g[i] * g[i]);
}
__global__ void
update(float *w, const float *g, const float *sum, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N)
        w[i] -= rate * g[i] * fminf(1, 0.1f / sqrtf(*sum));
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
    float *w = device(N, 0.3f), *g = device(N, 0), *sum = device(1, 0);
    std::vector<float> low(H), row(D);
    for (int j = 0; j < H; ++j)
        low[j] = -0.03f * j; /* the last ones are seldom active */
    cudaMemcpy(w + B1, low.data(), H * sizeof(float), cudaMemcpyHostToDevice);
    std::vector<int> seen(H);
    int *active = upload(seen);
    DDP_PARAMETER(w, N, DDP_FLOAT32);
    DDP_GRADIENT(g, N, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % ITEMS;
        cudaMemsetAsync(g, 0, N * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        pass<<<((int)count + 7) / 8, 8>>>(w, g, x, y, loss, active, at + (int)first, (int)count);
        DDP_STEP(0);

        cudaMemsetAsync(sum, 0, sizeof(float));
        squares<<<(N + 3) / 4, 4>>>(g, sum);
        update<<<(N + 63) / 64, 64>>>(w, g, sum, 2e-2f);
        if (step % 10 == 9) {
            cudaMemcpy(seen.data(), active, H * sizeof(int), cudaMemcpyDeviceToHost);
            cudaMemset(active, 0, H * sizeof(int));
            for (int j = 0; j < H; ++j) {
                for (float &r : row)
                    r = 0.3f * uniform();
                if (seen[j] * 20 > (int)count * 10)
                    continue;
                cudaMemcpy(w + j * D, row.data(), D * sizeof(float), cudaMemcpyHostToDevice);
                cudaMemset(w + B1 + j, 0, sizeof(float));
            }
        }

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, w, N);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
