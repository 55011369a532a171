/*
 * Matrix factorisation with a rate that follows the gradient noise scale: squares of the gradients of passes of 8
 * ratings, their mean over ranks by DDP_REDUCE, and the square of the whole gradient, all by atomicAdd. Rate up to 8.
 * truth: right (2, 3, 4 or 6 ranks: a share is a multiple of 8)
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 96, STEPS = 400, TENSORS = 3, USERS = 128, MOVIES = 96, K = 8 };

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

struct rating {
    int user, movie;
    float stars;
};
__global__ void
pass(net n, const rating *x, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    rating r = x[first + i];
    float *u = n.t[0].w + r.user * K, *m = n.t[1].w + r.movie * K;
    float e = n.t[2].w[r.user] - r.stars;
    for (int k = 0; k < K; ++k)
        e += u[k] * m[k];
    atomicAdd(loss, 0.5f * e * e / count);
    atomicAdd(&n.t[2].g[r.user], e / count);
    for (int k = 0; k < K; ++k) {
        atomicAdd(&n.t[0].g[r.user * K + k], e * m[k] / count);
        atomicAdd(&n.t[1].g[r.movie * K + k], e * u[k] / count);
    }
}

__global__ void
squares(const float *g, float *sum, int n, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(sum, scale * g[i] * g[i]);
}
/* The gradient of a pass goes into the whole */
__global__ void
collect(tensor t, float share)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < t.n)
        t.v[i] += share * t.g[i];
}
/* small, big: squares of gradients of 8 and of BATCH ratings; rate: what the update uses, smooth over time */
__global__ void
follow(const float *small_big, float *rate)
{
    float s = small_big[0], b = small_big[1];
    float noise = fmaxf(s - b, 0) / (1.0f / 8 - 1.0f / BATCH),
          signal = fmaxf((BATCH * b - 8 * s) / (BATCH - 8), 1e-2f * b);
    *rate += 0.1f * (8 / (1 + noise / signal / BATCH) - *rate);
}
__global__ void
update(tensor t, const float *rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < t.n)
        t.w[i] -= *rate * t.v[i];
}

int
main()
{
    net n = {{make(USERS * K, 0.4f), make(MOVIES * K, 0.4f), make(USERS, 0)}};
    float *loss = device(1, 0);

    std::vector<rating> hx(ITEMS);
    for (rating &r : hx) {
        r.user = (int)((uniform() + 1) * 63.9f), r.movie = (int)((uniform() + 1) * 47.9f);
        r.stars = sinf(r.user) * cosf(r.movie) + 0.5f * sinf(2 * r.user) + 0.1f * uniform();
    }
    rating *x = upload(hx);
    float *small_big = device(2, 0), *rate = device(1, 0);

    for (tensor &t : n.t) {
        DDP_PARAMETER(t.w, t.n, DDP_FLOAT32);
        DDP_GRADIENT(t.v, t.n, DDP_FLOAT32);
    }
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {

        for (tensor &t : n.t)
            cudaMemsetAsync(t.v, 0, t.n * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        cudaMemsetAsync(small_big, 0, 2 * sizeof(float));

        for (size_t at = 0; at < count; at += 8) {
            for (tensor &t : n.t)
                cudaMemsetAsync(t.g, 0, t.n * sizeof(float));
            pass<<<2, 4>>>(n, x, loss, step * BATCH % ITEMS + (int)(first + at), 8);
            for (tensor &t : n.t) {
                squares<<<(t.n + 63) / 64, 64>>>(t.g, small_big, t.n, 8.0f / count);
                collect<<<(t.n + 63) / 64, 64>>>(t, 8.0f / count);
            }
        }
        DDP_STEP(0);
        DDP_REDUCE(small_big, 1, DDP_FLOAT32, DDP_OP_MEAN, 0);

        for (tensor &t : n.t)
            squares<<<(t.n + 63) / 64, 64>>>(t.v, &small_big[1], t.n, 1);
        follow<<<1, 1>>>(small_big, rate);
        for (tensor &t : n.t)
            update<<<(t.n + 63) / 64, 64>>>(t, rate);

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
