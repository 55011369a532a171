/*
 * Softmax regression with gradients of 16 bits under a loss scale that adapts itself, float masters, and a copy of
 * them in half for forward, all annotated. The clipping norm is by atomicAdd: its last bit can round a weight of 16
 * bits the other way. Rate 1e-2.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 48, STEPS = 200, TENSORS = 2, D = 64, C = 10 };

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
pass(net n, __half *const *w, const float *x, const int *label, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const float *in = x + (size_t)(first + i) * D;
    float z[C];
    for (int c = 0; c < C; ++c) {
        z[c] = __half2float(w[1][c]);
        for (int k = 0; k < D; ++k)
            z[c] += __half2float(w[0][c * D + k]) * in[k];
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

__global__ void
pack(const float *g, __half *g16, int n, const float *scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        g16[i] = __float2half(g[i] * scale[0]);
}
/* state: the loss scale, the sum of squares, steps since the scale has changed */
__global__ void
unpack(tensor t, const __half *g16, float *state)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    t.g[i] = __half2float(g16[i]) / state[0];
    atomicAdd(&state[1], t.g[i] * t.g[i]);
}
__global__ void
update(tensor t, __half *w16, const float *state)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    if (isfinite(state[1])) {
        t.m[i] = 0.9f * t.m[i] + t.g[i] * fminf(1, 0.1f / sqrtf(state[1]));
        t.w[i] -= 1e-2f * t.m[i];
    }
    w16[i] = __float2half(t.w[i]);
}
__global__ void
rescale(float *state)
{
    bool bad = !isfinite(state[1]);
    state[2] = bad ? 0 : state[2] + 1;
    state[0] *= bad ? 0.5f : state[2] > 20 ? 2 : 1;
    state[2] = state[2] > 20 ? 0 : state[2];
    state[0] = fminf(state[0], 4096);
    state[1] = 0;
}

int
main()
{
    net n = {{make(C * D, 0), make(C, 0)}};
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

    __half *g16[2], *w16[2];
    float *state = upload(std::vector<float>{64, 0, 0});
    for (int j = 0; j < TENSORS; ++j) {
        cudaMalloc(&g16[j], n.t[j].n * sizeof(__half));
        w16[j] = upload(std::vector<__half>(n.t[j].n, __float2half(0)));
        DDP_PARAMETER(n.t[j].w, n.t[j].n, DDP_FLOAT32);
        DDP_PARAMETER(w16[j], n.t[j].n, DDP_FLOAT16);
        DDP_GRADIENT(g16[j], n.t[j].n, DDP_FLOAT16);
    }
    __half **w = upload(std::vector<__half *>(w16, w16 + 2));
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {

        for (tensor &t : n.t)
            cudaMemsetAsync(t.g, 0, t.n * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));

        pass<<<((int)count + 7) / 8, 8>>>(n, w, x, y, loss, step * BATCH % ITEMS + (int)first, (int)count);
        for (int j = 0; j < TENSORS; ++j)
            pack<<<(n.t[j].n + 63) / 64, 64>>>(n.t[j].g, g16[j], n.t[j].n, state);
        DDP_STEP(0);

        for (int j = 0; j < TENSORS; ++j)
            unpack<<<(n.t[j].n + 63) / 64, 64>>>(n.t[j], g16[j], state);
        for (int j = 0; j < TENSORS; ++j)
            update<<<(n.t[j].n + 63) / 64, 64>>>(n.t[j], w16[j], state);
        rescale<<<1, 1>>>(state);

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
