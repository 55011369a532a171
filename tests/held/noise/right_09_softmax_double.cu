/*
 * Softmax regression in double precision by AdamW, clipped by a norm by atomicAdd of double. Rate 1e-3.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 48, STEPS = 1000, TENSORS = 2, D = 64, C = 10 };

struct tensor {
    double *w, *g, *m, *v;
    int n;
};
struct net {
    tensor t[TENSORS];
};

static unsigned seed = 7;
static double
uniform()
{
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / 8388608.0 - 1.0;
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
static double *
device(size_t n, double scale)
{
    std::vector<double> h(n);
    for (double &x : h)
        x = scale * uniform();
    return upload(h);
}
static tensor
make(int n, double scale)
{
    return {device(n, scale), device(n, 0), device(n, 0), device(n, 0), n};
}

__global__ void
pass(net n, const double *x, const int *label, double *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const double *in = x + (size_t)(first + i) * D;
    double z[C];
    for (int c = 0; c < C; ++c) {
        z[c] = n.t[1].w[c];
        for (int k = 0; k < D; ++k)
            z[c] += n.t[0].w[c * D + k] * in[k];
    }

    double top = z[0], sum = 0;
    for (int c = 1; c < C; ++c)
        top = fmax(top, z[c]);
    for (int c = 0; c < C; ++c)
        sum += exp(z[c] - top);
    atomicAdd(loss, (log(sum) + top - z[label[first + i]]) / count);
    for (int c = 0; c < C; ++c)
        z[c] = (exp(z[c] - top) / sum - (c == label[first + i])) / count;

    for (int c = 0; c < C; ++c) {
        atomicAdd(&n.t[1].g[c], z[c]);
        for (int k = 0; k < D; ++k)
            atomicAdd(&n.t[0].g[c * D + k], z[c] * in[k]);
    }
}

/* norm += the sum of squares, by one atomicAdd of each thread */
__global__ void
squares(const double *g, double *norm, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(norm, g[i] * g[i]);
}

__global__ void
adamw(tensor t, const double *norm, double c1, double c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    double g = t.g[i] * fmin(1.0, 0.1 / sqrt(*norm));
    t.m[i] = 0.9 * t.m[i] + 0.1 * g;
    t.v[i] = 0.999 * t.v[i] + 0.001 * g * g;
    t.w[i] -= 1e-3f * (t.m[i] / c1 / (sqrt(t.v[i] / c2) + 1e-8f) + 1e-2f * t.w[i]);
}

int
main()
{
    net n = {{make(C * D, 0.1), make(C, 0)}};
    double *loss = device(1, 0);

    std::vector<double> hx((size_t)ITEMS * D);
    std::vector<int> hl(ITEMS);
    for (double &v : hx)
        v = uniform();
    for (int i = 0; i < ITEMS; ++i) { /* the class is that of the largest of the first C inputs */
        for (int c = 1; c < C; ++c)
            hl[i] = hx[(size_t)i * D + c] > hx[(size_t)i * D + hl[i]] ? c : hl[i];
    }
    double *x = upload(hx);
    int *y = upload(hl);
    double *norm = device(1, 0);

    for (tensor &t : n.t) {
        DDP_PARAMETER(t.w, t.n, DDP_FLOAT64);
        DDP_STATE(t.m, t.n, DDP_FLOAT64);
        DDP_STATE(t.v, t.n, DDP_FLOAT64);
        DDP_GRADIENT(t.g, t.n, DDP_FLOAT64);
    }
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {

        for (tensor &t : n.t)
            cudaMemsetAsync(t.g, 0, t.n * sizeof(double));
        cudaMemsetAsync(loss, 0, sizeof(double));
        pass<<<((int)count + 7) / 8, 8>>>(n, x, y, loss, step * BATCH % ITEMS + (int)first, (int)count);
        DDP_STEP(0);

        cudaMemsetAsync(norm, 0, sizeof(double));
        for (tensor &t : n.t)
            squares<<<(t.n + 63) / 64, 64>>>(t.g, norm, t.n);
        for (tensor &t : n.t)
            adamw<<<(t.n + 63) / 64, 64>>>(t, norm, 1 - pow(0.9, step + 1), 1 - pow(0.999, step + 1));

        if (step % (STEPS / 5) == 0 || step == STEPS - 1) {
            double l;
            cudaMemcpy(&l, loss, sizeof(l), cudaMemcpyDeviceToHost);
            DDP_MEAN(&l);
            if (DDP_RANK() == 0)
                printf("step %d loss %g\n", step, l);
        }
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
