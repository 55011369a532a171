/*
 * Embedding and classifier by a kind of Adafactor: second moments of rows and columns, and the size of the update that
 * is clipped, are sums by atomicAdd. Rate 1e-2; no state is annotated.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 96, STEPS = 300, TENSORS = 2, V = 256, K = 16, L = 8, C = 4 };

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
pass(net n, const int *token, const int *label, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const int *t = token + (size_t)(first + i) * L;
    float h[K] = {0}, z[C];
    for (int j = 0; j < L * K; ++j)
        h[j % K] += n.t[0].w[t[j / K] * K + j % K] / L;
    for (int c = 0; c < C; ++c) {
        z[c] = 0;
        for (int k = 0; k < K; ++k)
            z[c] += n.t[1].w[c * K + k] * h[k];
    }

    float top = z[0], sum = 0;
    for (int c = 1; c < C; ++c)
        top = fmaxf(top, z[c]);
    for (int c = 0; c < C; ++c)
        sum += expf(z[c] - top);
    atomicAdd(loss, (logf(sum) + top - z[label[first + i]]) / count);
    for (int c = 0; c < C; ++c)
        z[c] = (expf(z[c] - top) / sum - (c == label[first + i])) / count;

    for (int k = 0; k < K; ++k) {
        float d = 0;
        for (int c = 0; c < C; ++c) {
            atomicAdd(&n.t[1].g[c * K + k], z[c] * h[k]);
            d += z[c] * n.t[1].w[c * K + k];
        }
        for (int j = 0; j < L; ++j)
            atomicAdd(&n.t[0].g[t[j] * K + k], d / L);
    }
}

/* sum: one for each row, then one for each column */
__global__ void
rows_and_columns(tensor t, float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    atomicAdd(&sum[i / K], (t.g[i] * t.g[i] + 1e-12f) / K);
    atomicAdd(&sum[t.n / K + i % K], (t.g[i] * t.g[i] + 1e-12f) / (t.n / K));
}
__global__ void
decay(tensor t, const float *sum, float beta, float *total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n / K + K)
        return;
    t.v[i] = beta * t.v[i] + (1 - beta) * sum[i];
    if (i < t.n / K)
        atomicAdd(&total[0], t.v[i] / (t.n / K));
}
__global__ void
direction(tensor t, float *total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    t.m[i] = t.g[i] / sqrtf(t.v[i / K] / total[0] * t.v[t.n / K + i % K]);
    atomicAdd(&total[1], t.m[i] * t.m[i] / t.n);
}
__global__ void
update(tensor t, const float *total, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < t.n)
        t.w[i] -= rate * t.m[i] / fmaxf(1, sqrtf(total[1]));
}

int
main()
{
    net n = {{make(V * K, 0.3f), make(C * K, 0.3f)}};
    float *loss = device(1, 0);

    std::vector<int> ht(ITEMS * L), hl(ITEMS);
    for (int i = 0; i < ITEMS; ++i) { /* a word in three tells the class; word 0 is frequent */
        hl[i] = i * 5 % C;
        for (int j = 0; j < L; ++j) {
            int word = (int)((uniform() + 1) * 127);
            ht[i * L + j] = j == 0 ? 0 : j % 3 == 0 ? word / C * C + hl[i] : word;
        }
    }
    int *x = upload(ht), *y = upload(hl);
    float *sum = device(V + K, 0), *total = device(2, 0);

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
            cudaMemsetAsync(sum, 0, (V + K) * sizeof(float));
            cudaMemsetAsync(total, 0, 2 * sizeof(float));
            rows_and_columns<<<(t.n + 63) / 64, 64>>>(t, sum);
            decay<<<(t.n / K + K + 63) / 64, 64>>>(t, sum, 1 - powf(step + 1, -0.8f), total);
            direction<<<(t.n + 63) / 64, 64>>>(t, total);
            update<<<(t.n + 63) / 64, 64>>>(t, total, 1e-2f);
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
