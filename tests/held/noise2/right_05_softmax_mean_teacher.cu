/*
 * Softmax regression that follows its labels and a teacher, the moving average of its own weights after each update;
 * the update is clipped to a norm that is a sum by atomicAdd. The teacher is annotated as state. Rate 2e-2.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 960, BATCH = 96, STEPS = 500, D = 40, C = 5, N = C * D };

static std::mt19937 engine(5);
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
pass(const float *w, float *g, const float *x, const int *y, float *loss, const float *teacher, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    x += (first + i) * D;
    float z[C] = {0};
    for (int c = 0; c < C * D; ++c)
        z[c / D] += w[c] * x[c % D];
    float t[C] = {0};
    for (int c = 0; c < C * D; ++c)
        t[c / D] += teacher[c] * x[c % D];
    for (int c = 0; c < C; ++c)
        t[c] = 0.2f * (z[c] - t[c]) / count; /* the pull to the teacher's logits */
    atomicAdd(loss, softmax(z, y[first + i], count));
    for (int c = 0; c < C; ++c)
        z[c] += t[c];
    for (int c = 0; c < C * D; ++c)
        atomicAdd(&g[c], z[c / D] * x[c % D]);
}

__global__ void
squares(const float *g, float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N)
        atomicAdd(sum, g[i] * g[i]);
}
__global__ void
update(float *w, float *teacher, const float *g, const float *sum, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N)
        return;
    w[i] -= rate * g[i] * fminf(1, 0.3f / sqrtf(*sum));
    teacher[i] = 0.98f * teacher[i] + 0.02f * w[i];
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
    float *w = device(N, 0.2f), *g = device(N, 0), *teacher = device(N, 0), *sum = device(1, 0);
    cudaMemcpy(teacher, w, N * sizeof(float), cudaMemcpyDeviceToDevice);
    DDP_PARAMETER(w, N, DDP_FLOAT32);
    DDP_STATE(teacher, N, DDP_FLOAT32);
    DDP_GRADIENT(g, N, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % ITEMS;
        cudaMemsetAsync(g, 0, N * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        pass<<<((int)count + 7) / 8, 8>>>(w, g, x, y, loss, teacher, at + (int)first, (int)count);
        DDP_STEP(0);

        cudaMemsetAsync(sum, 0, sizeof(float));
        squares<<<(N + 1) / 2, 2>>>(g, sum);
        update<<<(N + 63) / 64, 64>>>(w, teacher, g, sum, 2e-2f);

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, w, N);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
