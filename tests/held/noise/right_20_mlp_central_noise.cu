/*
 * MLP whose gradients lose their row means (by atomicAdd), get noise and a mask from random numbers that are the same
 * on all ranks, under a cosine schedule from 5e-2. Weight decay 1e-3.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 24, STEPS = 600, TENSORS = 4, IN = 32, HID = 32, OUT = 4 };

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
    const float *in = x + (size_t)(first + i) * IN, *want = y + (size_t)(first + i) * OUT;
    float h[HID], d[HID] = {0}, l = 0;
    for (int j = 0; j < HID; ++j) {
        float a = n.t[1].w[j];
        for (int k = 0; k < IN; ++k)
            a += n.t[0].w[j * IN + k] * in[k];
        h[j] = tanhf(a);
    }
    for (int o = 0; o < OUT; ++o) {
        float e = n.t[3].w[o] - want[o];
        for (int j = 0; j < HID; ++j)
            e += n.t[2].w[o * HID + j] * h[j];
        l += 0.5f * e * e / count;
        e /= count;
        atomicAdd(&n.t[3].g[o], e);
        for (int j = 0; j < HID; ++j) {
            atomicAdd(&n.t[2].g[o * HID + j], e * h[j]);
            d[j] += e * n.t[2].w[o * HID + j];
        }
    }
    atomicAdd(loss, l);
    for (int j = 0; j < HID; ++j) {
        float z = d[j] * (1 - h[j] * h[j]);
        atomicAdd(&n.t[1].g[j], z);
        for (int k = 0; k < IN; ++k)
            atomicAdd(&n.t[0].g[j * IN + k], z * in[k]);
    }
}

__device__ float
random_of(unsigned step, unsigned i)
{
    unsigned a = (step * 9781u + i) * 2654435761u;
    a ^= a >> 16;
    a *= 2246822519u;
    return (a >> 8) / 16777216.0f;
}
__global__ void
row_means(tensor t, float *mean, int columns)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < t.n)
        atomicAdd(&mean[i / columns], t.g[i] / columns);
}
__global__ void
update(tensor t, const float *mean, int columns, unsigned step, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    float g = columns > 1 ? t.g[i] - mean[i / columns] : t.g[i];
    g += 1e-3f * (random_of(step, i) - 0.5f) + 1e-3f * t.w[i];
    t.m[i] = 0.9f * t.m[i] + g;
    if (random_of(step + 100000, i) > 0.1f)
        t.w[i] -= rate * t.m[i];
}

int
main()
{
    net n = {{make(HID * IN, 0.1f), make(HID, 0), make(OUT * HID, 0.2f), make(OUT, 0)}};
    float *loss = device(1, 0);

    std::vector<float> hx((size_t)ITEMS * IN), hy((size_t)ITEMS * OUT);
    for (float &v : hx)
        v = uniform();
    for (int i = 0; i < ITEMS * OUT; ++i)
        hy[i] = 0.3f + sinf(2 * hx[i / OUT * IN + i % OUT] + hx[i / OUT * IN + i % OUT + 1]);
    float *x = upload(hx), *y = upload(hy);
    float *mean = device(HID, 0);

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

        float rate = 2.5e-2f * (1 + cosf(3.1416f * step / STEPS));
        for (int j = 0; j < TENSORS; ++j) {
            int columns = j == 0 ? IN : j == 2 ? HID : 1;
            cudaMemsetAsync(mean, 0, HID * sizeof(float));
            row_means<<<(n.t[j].n + 15) / 16, 16>>>(n.t[j], mean, columns);
            update<<<(n.t[j].n + 15) / 16, 16>>>(n.t[j], mean, columns, step, rate);
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
