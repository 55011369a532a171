/*
 * Linear regression with SGD and momentum, rate 1e-2.
 * truth: wrong: DDP_STEP stands after the optimizer, which uses the gradients of its own share; in main(), expected to
 * show: at once
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 96, STEPS = 200, TENSORS = 2, D = 256 };

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

__global__ void
sgd(tensor t, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    t.m[i] = 0.9f * t.m[i] + t.g[i];
    t.w[i] -= rate * t.m[i];
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
        for (tensor &t : n.t)
            sgd<<<(t.n + 63) / 64, 64>>>(t, 1e-2f);
        DDP_STEP(0);

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
