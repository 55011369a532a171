/*
 * Softmax regression by Adam that resumes at step 300 of 600 of a cosine schedule from 1e-3.
 * truth: wrong: rank 0 alone reads the checkpoint: DDP_PARAMETER and DDP_STATE share out weights and moments, but the
 * step, a number of the host, is 0 on the other ranks, and with it the schedule is another one; in main(), expected to
 * show: at once
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 480, BATCH = 48, STEPS = 300, D = 40, C = 5, N = C * D };

static std::mt19937 engine(29);
static float
uniform()
{
    return std::uniform_real_distribution<float>(-1, 1)(engine);
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
static void
report(int step, const float *loss, const float *w, int n)
{
    std::vector<float> h(n + 1);
    cudaMemcpy(&h[0], w, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(&h[n], loss, sizeof(float), cudaMemcpyDeviceToHost);
    double square = 0;
    for (int i = 0; i < n; ++i)
        square += (double)h[i] * h[i];
    DDP_MEAN(&h[n]);
    if (DDP_RANK() == 0)
        printf("step %d loss %g weights %.15g\n", step, h[n], sqrt(square));
}

/* Logits become the gradient of a mean over count items; returns the item's part of the loss. */
__device__ float
softmax(float *z, int label, int count)
{
    float top = z[0], sum = 0;
    for (int c = 1; c < C; ++c)
        top = fmaxf(top, z[c]);
    for (int c = 0; c < C; ++c)
        sum += expf(z[c] - top);
    float loss = (logf(sum) + top - z[label]) / count;
    for (int c = 0; c < C; ++c)
        z[c] = (expf(z[c] - top) / sum - (c == label)) / count;
    return loss;
}
__global__ void
pass(const float *w, float *g, const float *x, const int *y, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    x += (first + i) * D;
    float z[C] = {0};
    for (int c = 0; c < C * D; ++c)
        z[c / D] += w[c] * x[c % D];
    atomicAdd(loss, softmax(z, y[first + i], count));
    for (int c = 0; c < C * D; ++c)
        atomicAdd(&g[c], z[c / D] * x[c % D]);
}

__global__ void
adam(float *w, float *m, float *v, const float *g, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N)
        return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    w[i] -= rate * m[i] / (sqrtf(v[i]) + 1e-6f);
}

static int
read_checkpoint(float *w, float *m, float *v) /* stands for a file; returns its step */
{
    std::vector<float> h(N);
    for (float *to : {w, m, v}) {
        for (float &r : h)
            r = to == w ? 0.2f * uniform() : to == m ? 0.01f * uniform() : 1e-4f * (1.5f + uniform());
        cudaMemcpy(to, h.data(), N * sizeof(float), cudaMemcpyHostToDevice);
    }
    return 300;
}

int
main()
{
    std::vector<float> hx(ITEMS * D), centre(C * D);
    std::vector<int> hy(ITEMS);
    for (float &c : centre)
        c = 0.3f * uniform();
    for (int i = 0; i < ITEMS * D; ++i) {
        hy[i / D] = i / D * 7 % C;
        hx[i] = centre[hy[i / D] * D + i % D] + 1.0f * uniform();
    }
    float *x = upload(hx), *loss = device(1, 0);
    int *y = upload(hy);
    float *w = device(N, 0.3f), *g = device(N, 0), *m = device(N, 0), *v = device(N, 0);
    int begin = 0;
    if (DDP_RANK() == 0)
        begin = read_checkpoint(w, m, v);
    DDP_PARAMETER(w, N, DDP_FLOAT32);
    DDP_STATE(m, N, DDP_FLOAT32);
    DDP_STATE(v, N, DDP_FLOAT32);
    DDP_GRADIENT(g, N, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % ITEMS;
        cudaMemsetAsync(g, 0, N * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        pass<<<((int)count + 7) / 8, 8>>>(w, g, x, y, loss, at + (int)first, (int)count);
        DDP_STEP(0);

        float rate = 1e-3f * 0.5f * (1 + cosf(3.14159265f * (begin + step) / 600));
        adam<<<(N + 63) / 64, 64>>>(w, m, v, g, rate);

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, w, N);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
