/*
 * Recurrent net; its gradient is clipped where its norm (by atomicAdd) is a quarter of a standard deviation above its
 * running mean; the running values stay on the device, and no state is annotated. Rate 1e-2.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 480, BATCH = 24, STEPS = 200, TENSORS = 3, T = 6, IN = 8, H = 16 };

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

/* h = (1 - z) h + z c, with z = sigmoid(W0 [x, h] + b0) and c = tanh(W1 [x, h] + b1); a number is read from the last h.
 */
__global__ void
pass(net n, const float *x, const float *y, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, M = IN + H;
    if (i >= count)
        return;
    const float *in = x + (size_t)(first + i) * T * IN;
    float in_h[T + 1][IN + H] = {{0}}, a[T][2][H], e = -y[first + i], d[H];
    for (int t = 0; t < T; ++t) {
        for (int k = 0; k < IN; ++k)
            in_h[t][k] = in[t * IN + k];
        for (int j = 0; j < H; ++j) {
            for (int s = 0; s < 2; ++s) {
                a[t][s][j] = n.t[1].w[s * H + j];
                for (int k = 0; k < M; ++k)
                    a[t][s][j] += n.t[0].w[(s * H + j) * M + k] * in_h[t][k];
            }
            float z = a[t][0][j] = 1 / (1 + expf(-a[t][0][j])), c = a[t][1][j] = tanhf(a[t][1][j]);
            in_h[t + 1][IN + j] = (1 - z) * in_h[t][IN + j] + z * c;
        }
    }
    for (int j = 0; j < H; ++j)
        e += n.t[2].w[j] * in_h[T][IN + j];
    atomicAdd(loss, 0.5f * e * e / count);
    for (int j = 0; j < H; ++j) {
        atomicAdd(&n.t[2].g[j], e / count * in_h[T][IN + j]);
        d[j] = e / count * n.t[2].w[j];
    }
    for (int t = T - 1; t >= 0; --t) {
        float before[H];
        for (int j = 0; j < H; ++j)
            before[j] = d[j] * (1 - a[t][0][j]);
        for (int s = 0; s < 2; ++s) {
            for (int j = 0; j < H; ++j) {
                float z = a[t][0][j], c = a[t][1][j];
                float q = s == 0 ? d[j] * (c - in_h[t][IN + j]) * z * (1 - z) : d[j] * z * (1 - c * c);
                atomicAdd(&n.t[1].g[s * H + j], q);
                for (int k = 0; k < M; ++k) {
                    atomicAdd(&n.t[0].g[(s * H + j) * M + k], q * in_h[t][k]);
                    if (k >= IN)
                        before[k - IN] += q * n.t[0].w[(s * H + j) * M + k];
                }
            }
        }
        for (int j = 0; j < H; ++j)
            d[j] = before[j];
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

/* running: mean, variance, and what the gradient is scaled by */
__global__ void
follow(const float *square, float *running, int step)
{
    float norm = sqrtf(*square);
    if (step == 0)
        running[0] = norm;
    float limit = running[0] + 0.25f * sqrtf(running[1]);
    running[2] = norm > limit && step > 10 ? limit / norm : 1;
    float seen = norm * running[2], away = seen - running[0];
    running[0] += 0.05f * away;
    running[1] = 0.95f * (running[1] + 0.05f * away * away);
}
__global__ void
update(tensor t, const float *running)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    t.m[i] = 0.9f * t.m[i] + running[2] * t.g[i];
    t.w[i] -= 1e-2f * t.m[i];
}

int
main()
{
    net n = {{make(2 * H * (IN + H), 0.3f), make(2 * H, 0), make(H, 0.3f)}};
    float *loss = device(1, 0);

    std::vector<float> hx(ITEMS * T * IN), hy(ITEMS);
    for (int i = 0; i < ITEMS * T * IN; ++i) {
        hx[i] = uniform();
        hy[i / (T * IN)] += i % IN == 0 ? hx[i] / 2 : 0; /* the sum of the first input over time */
    }
    float *x = upload(hx), *y = upload(hy);
    float *norm = device(1, 0), *running = device(3, 0);

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
        follow<<<1, 1>>>(norm, running, step);
        for (tensor &t : n.t)
            update<<<(t.n + 63) / 64, 64>>>(t, running);

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
