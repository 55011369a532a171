/*
 * Autoencoder whose rows of weights are brought back to norm 1 after each update; norms by atomicAdd. A moving average
 * of the weights for evaluation is annotated as state. Rate 5e-2.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 48, STEPS = 300, TENSORS = 4, IN = 24, HID = 12, OUT = 24 };

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
step_and_norms(tensor t, float *row, int columns)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    t.m[i] = 0.9f * t.m[i] + t.g[i];
    t.w[i] -= 5e-2f * t.m[i];
    atomicAdd(&row[i / columns], t.w[i] * t.w[i]);
}
/* columns 1: a bias, which keeps its size; v: the average */
__global__ void
project(tensor t, const float *row, int columns)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    if (columns > 1)
        t.w[i] /= sqrtf(row[i / columns]);
    t.v[i] += 0.01f * (t.w[i] - t.v[i]);
}

int
main()
{
    net n = {{make(HID * IN, 0.1f), make(HID, 0), make(OUT * HID, 0.2f), make(OUT, 0)}};
    float *loss = device(1, 0);

    std::vector<float> hx((size_t)ITEMS * IN);
    for (int i = 0; i < ITEMS; ++i) {
        float a = uniform(), b = uniform(), c = uniform();
        for (int k = 0; k < IN; ++k)
            hx[i * IN + k] = 0.2f + a * sinf(k) + b * cosf(2 * k) + c * sinf(3 * k) / 2;
    }
    float *x = upload(hx), *y = x; /* the input is what the decoder shall give back */
    float *row = device(IN, 0);

    for (tensor &t : n.t) {
        DDP_PARAMETER(t.w, t.n, DDP_FLOAT32);
        DDP_STATE(t.v, t.n, DDP_FLOAT32);
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

        for (int j = 0; j < TENSORS; ++j) {
            int columns = j == 0 ? IN : j == 2 ? HID : 1;
            cudaMemsetAsync(row, 0, IN * sizeof(float));
            step_and_norms<<<(n.t[j].n + 15) / 16, 16>>>(n.t[j], row, columns);
            project<<<(n.t[j].n + 15) / 16, 16>>>(n.t[j], row, columns);
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
