/*
 * Small convolution net with SGD and momentum; two passes add up their gradients for each update; rate 1e-2.
 * truth: wrong: DDP_STEP stands after the first pass, so the second one is not averaged; in main(), expected to show:
 * at once
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 48, STEPS = 200, TENSORS = 4, F = 8, C = 4 };

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
pass(net n, const float *x, const int *label, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const float *in = x + (size_t)(first + i) * 64; /* an image of 8 by 8 */
    float map[F * 36], z[C];
    for (int p = 0; p < F * 36; ++p) {
        int f = p / 36, at = p % 36 / 6 * 8 + p % 6;
        float a = n.t[1].w[f];
        for (int k = 0; k < 9; ++k)
            a += n.t[0].w[f * 9 + k] * in[at + k / 3 * 8 + k % 3];
        map[p] = fmaxf(a, 0);
    }
    for (int c = 0; c < C; ++c) {
        z[c] = n.t[3].w[c];
        for (int p = 0; p < F * 36; ++p)
            z[c] += n.t[2].w[c * F * 36 + p] * map[p];
    }

    float top = z[0], sum = 0;
    for (int c = 1; c < C; ++c)
        top = fmaxf(top, z[c]);
    for (int c = 0; c < C; ++c)
        sum += expf(z[c] - top);
    atomicAdd(loss, (logf(sum) + top - z[label[first + i]]) / count);
    for (int c = 0; c < C; ++c)
        z[c] = (expf(z[c] - top) / sum - (c == label[first + i])) / count;

    for (int c = 0; c < C; ++c)
        atomicAdd(&n.t[3].g[c], z[c]);
    for (int p = 0; p < F * 36; ++p) {
        int f = p / 36, at = p % 36 / 6 * 8 + p % 6;
        float d = 0;
        for (int c = 0; c < C; ++c) {
            atomicAdd(&n.t[2].g[c * F * 36 + p], z[c] * map[p]);
            d += z[c] * n.t[2].w[c * F * 36 + p];
        }
        if (map[p] <= 0)
            continue;
        atomicAdd(&n.t[1].g[f], d);
        for (int k = 0; k < 9; ++k)
            atomicAdd(&n.t[0].g[f * 9 + k], d * in[at + k / 3 * 8 + k % 3]);
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
    net n = {{make(F * 9, 0.2f), make(F, 0), make(C * F * 36, 0.05f), make(C, 0)}};
    float *loss = device(1, 0);

    std::vector<float> hx(ITEMS * 64);
    std::vector<int> hl(ITEMS);
    for (int i = 0; i < ITEMS; ++i) { /* stripes in one of four directions */
        float phase = 3 * uniform();
        hl[i] = i * 7 % C;
        for (int p = 0; p < 64; ++p) {
            int r = p / 8, q = p % 8, s[4] = {r, q, r + q, r - q};
            hx[i * 64 + p] = 1 * (sinf(1.5f * s[hl[i]] + phase) + 0.5f * uniform());
        }
    }
    float *x = upload(hx);
    int *y = upload(hl);

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
        pass<<<((int)count + 7) / 8, 8>>>(n, x, y, loss, (step + 1) * BATCH % ITEMS + (int)first, (int)count);
        for (tensor &t : n.t)
            sgd<<<(t.n + 63) / 64, 64>>>(t, 1e-2f);

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
