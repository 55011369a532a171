/*
 * Matrix factorisation with SGD and momentum; some ratings are empty, and the rate falls with the number of those that
 * count; rate 1e-1.
 * truth: wrong: the schedule counts the ratings of the rank's own share; in main(), expected to show: slowly
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
    net n = {{make(USERS * K, 0.4f), make(MOVIES * K, 0.4f), make(USERS, 0)}};
    float *loss = device(1, 0);

    std::vector<rating> hx(ITEMS);
    for (rating &r : hx) {
        r.user = (int)((uniform() + 1) * 63.9f), r.movie = (int)((uniform() + 1) * 47.9f);
        r.stars = sinf(r.user) * cosf(r.movie) + 0.5f * sinf(2 * r.user) + 0.1f * uniform();
    }
    rating *x = upload(hx);

    std::vector<int> valid(ITEMS);
    for (int i = 0; i < ITEMS; ++i)
        valid[i] = hx[i].stars > -0.5f;
    long seen = 0;

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
        pass<<<((int)count + 7) / 8, 8>>>(n, x, loss, step * BATCH % ITEMS + (int)first, (int)count);
        DDP_STEP(0);

        for (size_t i = 0; i < count; ++i)
            seen += valid[step * BATCH % ITEMS + first + i];
        float rate = 0.1f / (1 + seen * DDP_WORLD_SIZE() / 20000.0f);
        for (tensor &t : n.t)
            sgd<<<(t.n + 63) / 64, 64>>>(t, rate);

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
