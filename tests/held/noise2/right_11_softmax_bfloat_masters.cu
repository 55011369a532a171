/*
 * Softmax regression whose forward reads weights of bfloat16, rounded to nearest from float masters after each update;
 * gradients are averaged as bfloat16, and with the decay of weights clipped to a norm that is a sum by atomicAdd.
 * Masters and copy are annotated (hard: masters that differ in the seventh digit may round to copies that differ in
 * the third). Rate 1e-1.
 * truth: right
 */
#include <cmath>
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <random>
#include <vector>

enum { ITEMS = 480, BATCH = 48, STEPS = 300, D = 48, C = 5, N = C * D };

static std::mt19937 engine(11);
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
pass(const __nv_bfloat16 *w, float *g, const float *x, const int *y, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    x += (first + i) * D;
    float z[C] = {0};
    for (int c = 0; c < C * D; ++c)
        z[c / D] += __bfloat162float(w[c]) * x[c % D];
    atomicAdd(loss, softmax(z, y[first + i], count));
    for (int c = 0; c < C * D; ++c)
        atomicAdd(&g[c], z[c / D] * x[c % D]);
}

__global__ void
pack(const float *g, __nv_bfloat16 *packed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N)
        packed[i] = __float2bfloat16(g[i]);
}
__global__ void
squares(const float *master, const __nv_bfloat16 *g, float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float d = __bfloat162float(g[i]) + 1e-2f * master[i];
    atomicAdd(sum, d * d);
}
__global__ void
update(float *master, __nv_bfloat16 *w, const __nv_bfloat16 *g, const float *sum, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N)
        return;
    if (g != nullptr)
        master[i] -= rate * (__bfloat162float(g[i]) + 1e-2f * master[i]) * fminf(1, 0.1f / sqrtf(*sum));
    w[i] = __float2bfloat16(master[i]);
}

int
main()
{
    std::vector<float> hx(ITEMS * D), centre(C * D);
    std::vector<int> hy(ITEMS);
    for (float &c : centre)
        c = 0.4f * uniform();
    for (int i = 0; i < ITEMS * D; ++i) {
        hy[i / D] = i / D * 7 % C;
        hx[i] = centre[hy[i / D] * D + i % D] + 1.0f * uniform();
    }
    float *x = upload(hx), *loss = device(1, 0);
    int *y = upload(hy);
    float *master = device(N, 0.3f), *g = device(N, 0), *sum = device(1, 0);
    __nv_bfloat16 *w = upload(std::vector<__nv_bfloat16>(N)), *packed = upload(std::vector<__nv_bfloat16>(N));
    update<<<(N + 63) / 64, 64>>>(master, w, nullptr, sum, 0);
    DDP_PARAMETER(master, N, DDP_FLOAT32);
    DDP_PARAMETER(w, N, DDP_BFLOAT16);
    DDP_GRADIENT(packed, N, DDP_BFLOAT16);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        int at = step * BATCH % ITEMS;
        cudaMemsetAsync(g, 0, N * sizeof(float));
        cudaMemsetAsync(loss, 0, sizeof(float));
        pass<<<((int)count + 7) / 8, 8>>>(w, g, x, y, loss, at + (int)first, (int)count);
        pack<<<(N + 63) / 64, 64>>>(g, packed);
        DDP_STEP(0);

        cudaMemsetAsync(sum, 0, sizeof(float));
        squares<<<N / 2, 2>>>(master, packed, sum);
        update<<<(N + 63) / 64, 64>>>(master, w, packed, sum, 1e-1f);

        if (step % (STEPS / 4) == 0 || step == STEPS - 1)
            report(step, loss, master, N);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
