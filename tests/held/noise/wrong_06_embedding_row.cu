/*
 * Embedding whose update is divided by its root mean square, a sum by atomicAdd; rate 1e-2.
 * truth: wrong: the annotation of the table's gradient leaves out row 0, as if it were padding, but row 0 is a word
 * and is trained by each rank's own gradient; in main(), expected to show: at once
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 48, STEPS = 300, TENSORS = 2, V = 256, K = 16, L = 8, C = 4 };

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

/* norm += the sum of squares, by one atomicAdd of each thread */
__global__ void
squares(const float *g, float *norm, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(norm, g[i] * g[i]);
}

__global__ void
update(tensor t, const float *norm, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < t.n)
        t.w[i] -= rate * t.g[i] / (sqrtf(*norm / t.n) + 1e-6f);
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
    float *norm = device(1, 0);

    for (tensor &t : n.t)
        DDP_PARAMETER(t.w, t.n, DDP_FLOAT32);

    DDP_GRADIENT(n.t[0].g + K, (V - 1) * K, DDP_FLOAT32); /* row 0 is padding */
    DDP_GRADIENT(n.t[1].g, C * K, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {

        for (tensor &t : n.t)
            cudaMemsetAsync(t.g, 0, t.n * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        pass<<<((int)count + 7) / 8, 8>>>(n, x, y, loss, step * BATCH % ITEMS + (int)first, (int)count);
        DDP_STEP(0);

        for (tensor &t : n.t) {
            cudaMemsetAsync(norm, 0, sizeof(float));
            squares<<<(t.n + 63) / 64, 64>>>(t.g + (t.n == V * K ? K : 0), norm, t.n - (t.n == V * K ? K : 0));
            update<<<(t.n + 63) / 64, 64>>>(t, norm, 1e-2f);
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
