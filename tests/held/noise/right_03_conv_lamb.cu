/*
 * Small convolution net by LAMB: the norms of weights and of Adam's updates are added by atomicAdd; moments are
 * annotated. Rate 1e-2, weight decay 1e-2, biases that begin at 0.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 48, STEPS = 150, TENSORS = 4, F = 8, C = 4 };

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
moments(tensor t, float *u, float *sum, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    t.m[i] = 0.9f * t.m[i] + 0.1f * t.g[i];
    t.v[i] = 0.99f * t.v[i] + 0.01f * t.g[i] * t.g[i];
    u[i] = t.m[i] / c1 / (sqrtf(t.v[i] / c2) + 1e-6f) + 1e-2f * t.w[i];
    atomicAdd(&sum[0], t.w[i] * t.w[i]);
    atomicAdd(&sum[1], u[i] * u[i]);
}
__global__ void
lamb(tensor t, const float *u, const float *sum, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    float trust = sum[0] > 0 && sum[1] > 0 ? fminf(sqrtf(sum[0] / sum[1]), 10) : 1;
    t.w[i] -= rate * trust * u[i];
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
    float *u = device(C * F * 36, 0), *sum = device(2, 0);

    for (tensor &t : n.t) {
        DDP_PARAMETER(t.w, t.n, DDP_FLOAT32);
        DDP_STATE(t.m, t.n, DDP_FLOAT32);
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

        for (tensor &t : n.t) {
            cudaMemsetAsync(sum, 0, 2 * sizeof(float));
            moments<<<(t.n + 31) / 32, 32>>>(t, u, sum, 1 - powf(0.9f, step + 1), 1 - powf(0.99f, step + 1));
            lamb<<<(t.n + 31) / 32, 32>>>(t, u, sum, 1e-2f);
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
