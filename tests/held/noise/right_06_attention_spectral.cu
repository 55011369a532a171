/*
 * Attention whose matrices are held to a spectral norm of at most 1: after each update one power iteration by atomics,
 * and a division of the weights. The left vector is state, and annotated. Rate 1e-1.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 480, BATCH = 24, STEPS = 400, TENSORS = 4, S = 6, D = 16 };

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

/* One head: P = softmax(Q K'), and a number is read from the mean over places of P V. */
__global__ void
pass(net n, const float *x, const float *y, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const float *in = x + (size_t)(first + i) * S * D;
    float q[3][S][D], p[S][S], dq[3][S][D] = {{{0}}}, mean[D] = {0}, e = -y[first + i];
    for (int j = 0; j < 3 * S * D; ++j) {
        float a = 0;
        for (int k = 0; k < D; ++k)
            a += n.t[j / (S * D)].w[j % D * D + k] * in[j / D % S * D + k];
        q[j / (S * D)][j / D % S][j % D] = a;
    }
    for (int r = 0; r < S; ++r) {
        float sum = 0;
        for (int c = 0; c < S; ++c) {
            float a = 0;
            for (int k = 0; k < D; ++k)
                a += q[0][r][k] * q[1][c][k] / 4;
            sum += p[r][c] = expf(a);
        }
        for (int c = 0; c < S; ++c) {
            p[r][c] /= sum;
            for (int k = 0; k < D; ++k)
                mean[k] += p[r][c] * q[2][c][k] / S;
        }
    }
    for (int k = 0; k < D; ++k)
        e += n.t[3].w[k] * mean[k];
    atomicAdd(loss, 0.5f * e * e / count);
    e /= count;
    for (int k = 0; k < D; ++k)
        atomicAdd(&n.t[3].g[k], e * mean[k]);
    for (int r = 0; r < S; ++r) {
        float dp[S] = {0}, dot = 0;
        for (int c = 0; c < S; ++c) {
            for (int k = 0; k < D; ++k) {
                dp[c] += e * n.t[3].w[k] / S * q[2][c][k];
                dq[2][c][k] += p[r][c] * e * n.t[3].w[k] / S;
            }
            dot += dp[c] * p[r][c];
        }
        for (int j = 0; j < S * D; ++j) {
            float ds = p[r][j / D] * (dp[j / D] - dot) / 4;
            dq[0][r][j % D] += ds * q[1][j / D][j % D];
            dq[1][j / D][j % D] += ds * q[0][r][j % D];
        }
    }
    for (int j = 0; j < 3 * S * D; ++j) {
        for (int k = 0; k < D; ++k)
            atomicAdd(&n.t[j / (S * D)].g[j % D * D + k], dq[j / (S * D)][j / D % S][j % D] * in[j / D % S * D + k]);
    }
}

__global__ void
sgd(tensor t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t.n)
        return;
    t.m[i] = 0.8f * t.m[i] + t.g[i];
    t.w[i] -= 0.1f * t.m[i];
}
/* out += W in, or its transpose's product; a thread for each element */
__global__ void
product(const float *w, const float *in, float *out, int transposed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < D * D)
        atomicAdd(&out[transposed ? i % D : i / D], w[i] * in[transposed ? i / D : i % D]);
}
__global__ void
add_squares(const float *v, float *sum)
{
    atomicAdd(sum, v[blockIdx.x] * v[blockIdx.x]);
}
__global__ void
normalise(float *v, const float *sum)
{
    v[blockIdx.x] /= sqrtf(*sum);
}
__global__ void
limit(float *w, const float *sigma)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < D * D)
        w[i] /= fmaxf(1, sqrtf(*sigma));
}

int
main()
{
    net n = {{make(D * D, 0.3f), make(D * D, 0.3f), make(D * D, 0.3f), make(D, 0.3f)}};
    float *loss = device(1, 0);

    std::vector<float> hx(ITEMS * S * D), hy(ITEMS);
    for (int i = 0; i < ITEMS * S * D; ++i)
        hx[i] = uniform();
    for (int i = 0; i < ITEMS; ++i) /* the second feature of that place which has the largest first */
        for (int s = 0, best = 0; s < S; ++s) {
            best = hx[(i * S + s) * D] > hx[(i * S + best) * D] ? s : best;
            hy[i] = hx[(i * S + best) * D + 1] + 0.2f;
        }
    float *x = upload(hx), *y = upload(hy);

    float *left[3], *right = device(D, 0), *sum = device(2, 0);
    for (float *&l : left) {
        l = device(D, 0.25f);
        DDP_STATE(l, D, DDP_FLOAT32);
    }

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
        for (tensor &t : n.t)
            sgd<<<(t.n + 31) / 32, 32>>>(t);

        for (int j = 0; j < 3; ++j) {
            cudaMemsetAsync(right, 0, D * sizeof(float));
            cudaMemsetAsync(sum, 0, 2 * sizeof(float));
            product<<<8, 32>>>(n.t[j].w, left[j], right, 1);
            add_squares<<<D, 1>>>(right, &sum[0]);
            normalise<<<D, 1>>>(right, &sum[0]);
            cudaMemsetAsync(left[j], 0, D * sizeof(float));
            product<<<8, 32>>>(n.t[j].w, right, left[j], 0);
            add_squares<<<D, 1>>>(left[j], &sum[1]);
            normalise<<<D, 1>>>(left[j], &sum[1]);
            limit<<<8, 32>>>(n.t[j].w, &sum[1]);
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
