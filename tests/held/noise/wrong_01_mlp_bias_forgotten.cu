/*
 * MLP with SGD and momentum, rate 1e-1.
 * truth: wrong: the gradient of the last bias is not annotated, so each rank updates it by its own; in main(),
 * expected to show: at once
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 48, STEPS = 200, TENSORS = 4, IN = 32, HID = 32, OUT = 4 };

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
    net n = {{make(HID * IN, 0.1f), make(HID, 0), make(OUT * HID, 0.2f), make(OUT, 0)}};
    float *loss = device(1, 0);

    std::vector<float> hx((size_t)ITEMS * IN), hy((size_t)ITEMS * OUT);
    for (float &v : hx)
        v = uniform();
    for (int i = 0; i < ITEMS * OUT; ++i)
        hy[i] = 0.3f + sinf(2 * hx[i / OUT * IN + i % OUT] + hx[i / OUT * IN + i % OUT + 1]);
    float *x = upload(hx), *y = upload(hy);

    for (tensor &t : n.t)
        DDP_PARAMETER(t.w, t.n, DDP_FLOAT32);

    for (int j = 0; j < TENSORS - 1; ++j)
        DDP_GRADIENT(n.t[j].g, n.t[j].n, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {

        for (tensor &t : n.t)
            cudaMemsetAsync(t.g, 0, t.n * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        pass<<<((int)count + 7) / 8, 8>>>(n, x, y, loss, step * BATCH % ITEMS + (int)first, (int)count);
        DDP_STEP(0);
        for (tensor &t : n.t)
            sgd<<<(t.n + 63) / 64, 64>>>(t, 0.1f);

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
