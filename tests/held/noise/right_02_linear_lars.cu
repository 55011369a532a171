/*
 * Linear regression by LARS: norms of weights and gradients by atomics of blocks. Rate 2 times a trust ratio of 0.01,
 * weight decay 1e-3.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 96, STEPS = 500, TENSORS = 2, D = 512 };

struct tensor {
    float *w, *g, *m, *v;
    int n;
};
struct net {
    tensor t[TENSORS];
};

static unsigned seed = 7;
static float
uniform()
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / 8388608.0f - 1.0f;
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
static tensor
make(int n, float scale)
{
    return {device(n, scale), device(n, 0), device(n, 0), device(n, 0), n};
}

__global__ void
pass(net n, const float *x, const float *y, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const float *in = x + (size_t)(first + i) * D;
    float e = n.t[1].w[0] - y[first + i];
    for (int k = 0; k < D; ++k)
        e += n.t[0].w[k] * in[k];
    atomicAdd(loss, 0.5f * e * e / count);
    atomicAdd(&n.t[1].g[0], e / count);
    for (int k = 0; k < D; ++k)
        atomicAdd(&n.t[0].g[k], e * in[k] / count);
}

/* The sum over a block of 64 threads, in thread 0 */
__device__ float
block_sum(float a)
{
    __shared__ float half;
    for (int s = 16; s > 0; s /= 2)
        a += __shfl_down_sync(~0u, a, s);
    if (threadIdx.x == 32)
        half = a;
    __syncthreads();
    return a + half;
}

__global__ void
norms(tensor t, float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float w = block_sum(i < t.n ? t.w[i] * t.w[i] : 0), g = block_sum(i < t.n ? t.g[i] * t.g[i] : 0);
    if (threadIdx.x == 0) {
        atomicAdd(&sum[0], w);
        atomicAdd(&sum[1], g);
    }
}
__global__ void
lars(tensor t, const float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    const float decay = 1e-3f;
    float w = sqrtf(sum[0]), g = sqrtf(sum[1]);
    float trust = t.n == 1 ? 0.05f : 0.01f * w / (g + decay * w + 1e-9f);
    t.m[i] = 0.9f * t.m[i] + trust * (t.g[i] + decay * t.w[i]);
    t.w[i] -= 2.0f * t.m[i] * (t.n == 1 ? 0.1f : 1.0f);
}

int
main()
{
    net n = {{make(D, 0.1f), make(1, 0)}};
    float *loss = device(1, 0);

    float *x, *y;
    {
        std::vector<float> hx((size_t)ITEMS * D), hy(ITEMS), truth(D);
        for (float &v : truth)
            v = uniform();
        for (int i = 0; i < ITEMS; ++i) {
            hy[i] = 0.5f + 0.1f * uniform();
            for (int k = 0; k < D; ++k)
                hy[i] += truth[k] * (hx[(size_t)i * D + k] = uniform() / 8);
        }
        x = upload(hx), y = upload(hy);
    }
    float *sum = device(2, 0);

    for (tensor &t : n.t) {
        DDP_PARAMETER(t.w, t.n, DDP_FLOAT32);
        DDP_GRADIENT(t.g, t.n, DDP_FLOAT32);
    }
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {

        for (tensor &t : n.t)
            cudaMemsetAsync(t.g, 0, t.n * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        pass<<<((int)count + 7) / 8, 8>>>(n, x, y, loss, step * BATCH % ITEMS + (int)first, (int)count);
        DDP_STEP(0);

        for (tensor &t : n.t) {
            cudaMemsetAsync(sum, 0, 2 * sizeof(float));
            norms<<<(t.n + 63) / 64, 64>>>(t, sum);
            lars<<<(t.n + 63) / 64, 64>>>(t, sum);
        }

        if (step % (STEPS / 5) == 0 || step == STEPS - 1) {
            float l;
            cudaMemcpy(&l, loss, sizeof(l), cudaMemcpyDeviceToHost);
            DDP_MEAN(&l);
            if (DDP_RANK() == 0)
                printf("step %d loss %g\n", step, l);
        }
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
