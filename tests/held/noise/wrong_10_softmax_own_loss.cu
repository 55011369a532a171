/*
 * Softmax regression with the step length of Polyak; the square of the gradient by atomicAdd.
 * truth: wrong: the loss in the step length is that of the rank's own share; polyak(), expected to show: at once
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 96, STEPS = 60, TENSORS = 2, D = 128, C = 10 };

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
    const float *in = x + (size_t)(first + i) * D;
    float z[C];
    for (int c = 0; c < C; ++c) {
        z[c] = n.t[1].w[c];
        for (int k = 0; k < D; ++k)
            z[c] += n.t[0].w[c * D + k] * in[k];
    }

    float top = z[0], sum = 0;
    for (int c = 1; c < C; ++c)
        top = fmaxf(top, z[c]);
    for (int c = 0; c < C; ++c)
        sum += expf(z[c] - top);
    atomicAdd(loss, (logf(sum) + top - z[label[first + i]]) / count);
    for (int c = 0; c < C; ++c)
        z[c] = (expf(z[c] - top) / sum - (c == label[first + i])) / count;

    for (int c = 0; c < C; ++c) {
        atomicAdd(&n.t[1].g[c], z[c]);
        for (int k = 0; k < D; ++k)
            atomicAdd(&n.t[0].g[c * D + k], z[c] * in[k]);
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
polyak(tensor t, const float *loss, const float *norm)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < t.n)
        t.w[i] -= fminf(0.5f * *loss / (*norm + 1e-9f), 5) * t.g[i];
}

int
main()
{
    net n = {{make(C * D, 0.1f), make(C, 0)}};
    float *loss = device(1, 0);

    std::vector<float> hx((size_t)ITEMS * D);
    std::vector<int> hl(ITEMS);
    for (float &v : hx)
        v = uniform();
    for (int i = 0; i < ITEMS; ++i) { /* the class is that of the largest of the first C inputs */
        for (int c = 1; c < C; ++c)
            hl[i] = hx[(size_t)i * D + c] > hx[(size_t)i * D + hl[i]] ? c : hl[i];
    }
    float *x = upload(hx);
    int *y = upload(hl);
    float *norm = device(1, 0);

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

        cudaMemsetAsync(norm, 0, sizeof(float));
        for (tensor &t : n.t)
            squares<<<(t.n + 63) / 64, 64>>>(t.g, norm, t.n);
        for (tensor &t : n.t)
            polyak<<<(t.n + 63) / 64, 64>>>(t, loss, norm);

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
