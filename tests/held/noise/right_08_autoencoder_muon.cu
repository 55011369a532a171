/*
 * Autoencoder whose matrices are updated by orthogonalised momentum (Muon): a norm by atomicAdd, then three Newton-
 * Schulz iterations. Few steps, rate 2e-2; biases by SGD.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 48, STEPS = 60, TENSORS = 4, IN = 24, HID = 12, OUT = 24 };

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
momentum(tensor t, float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    t.m[i] = 0.9f * t.m[i] + t.g[i];
    t.v[i] = t.g[i] + 0.9f * t.m[i];
    atomicAdd(sum, t.v[i] * t.v[i]);
}
__global__ void
scale(float *x, const float *sum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= rsqrtf(*sum + 1e-12f);
}
/* a = X X', for X of r rows and c columns */
__global__ void
gram(const float *x, float *a, int r, int c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= r * r)
        return;
    a[i] = 0;
    for (int k = 0; k < c; ++k)
        a[i] += x[i / r * c + k] * x[i % r * c + k];
}
/* out = alpha X + beta A X */
__global__ void
combine(float *out, const float *x, const float *a, int r, int c, float alpha, float beta)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= r * c)
        return;
    float s = 0;
    for (int k = 0; k < r; ++k)
        s += a[i / c * r + k] * x[k * c + i % c];
    out[i] = alpha * x[i] + beta * s;
}
__global__ void
descend(float *w, const float *u, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= rate * u[i];
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
    float *sum = device(1, 0), *a = device(IN * IN, 0), *next = device(IN * HID, 0);

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

        for (int j = 0; j < TENSORS; ++j) {
            tensor &t = n.t[j];
            unsigned blocks = (t.n + 63) / 64;
            cudaMemsetAsync(sum, 0, sizeof(float));
            momentum<<<blocks, 64>>>(t, sum);
            int r = j == 0 ? HID : OUT, c = t.n / r;
            if (j % 2 == 0) {
                scale<<<blocks, 64>>>(t.v, sum, t.n);
                for (int k = 0; k < 3; ++k) {
                    gram<<<(r * r + 63) / 64, 64>>>(t.v, a, r, c);
                    combine<<<blocks, 64>>>(next, t.v, a, r, c, 1.5f, -0.5f);
                    cudaMemcpyAsync(t.v, next, t.n * sizeof(float), cudaMemcpyDeviceToDevice);
                }
            }
            descend<<<blocks, 64>>>(t.w, t.v, t.n, 2e-2f);
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
