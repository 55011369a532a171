// GAN in the plane: generator MLP 2-16-2 and discriminator MLP 2-16-1, alternating steps, two Adam optimizers.
// Truth: state (weights and both moments of both nets around each batch, as D's update lies before G's backward).
// Batches: 48 (batches of 32 real and 32 generated points).
#include "truth.h"
#include <cmath>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

#define CUDA_CALL(x)                                        \
    do {                                                    \
        if ((x) != cudaSuccess) {                           \
            printf("Error at %s:%d\n", __FILE__, __LINE__); \
            return EXIT_FAILURE;                            \
        }                                                   \
    } while (0)

static const int HID = 16, BS = 32, STEPS = 48;

struct Net { // in 2, hidden HID, out O
    int O, n;
    float *w, *g, *m, *v;
    __host__ __device__ int B1() const
    {
        return 2 * HID;
    }
    __host__ __device__ int W2() const
    {
        return 3 * HID;
    }
    __host__ __device__ int B2() const
    {
        return 3 * HID + HID * O;
    }
};

__global__ void
netForward(Net net, const float *x, float *h, float *y)
{
    __shared__ float hs[HID];
    int s = blockIdx.x, j = threadIdx.x;
    float a = net.w[net.B1() + j] + x[2 * s] * net.w[j] + x[2 * s + 1] * net.w[HID + j];
    a = a > 0 ? a : 0.2f * a;
    hs[j] = h[s * HID + j] = a;
    __syncthreads();
    if (j < net.O) {
        float t = net.w[net.B2() + j];
        for (int k = 0; k < HID; k++)
            t += hs[k] * net.w[net.W2() + k * net.O + j];
        y[s * net.O + j] = t;
    }
}
// binary cross entropy with logits against one label for the whole batch; dy and the sum of losses
__global__ void
bce(const float *logit, float label, float *dy, float *loss)
{
    __shared__ float l[BS];
    int s = threadIdx.x;
    float z = logit[s], p = 1.0f / (1.0f + expf(-z));
    dy[s] = (p - label) / BS;
    l[s] = fmaxf(z, 0.0f) - z * label + log1pf(expf(-fabsf(z)));
    __syncthreads();
    if (s == 0) {
        float t = 0;
        for (int i = 0; i < BS; i++)
            t += l[i];
        *loss = t / BS;
    }
}
__global__ void
netBackHidden(Net net, const float *h, const float *dy, float *dh, float *dx)
{
    __shared__ float d[HID];
    int s = blockIdx.x, j = threadIdx.x;
    float a = 0;
    for (int o = 0; o < net.O; o++)
        a += dy[s * net.O + o] * net.w[net.W2() + j * net.O + o];
    a *= h[s * HID + j] > 0 ? 1.0f : 0.2f;
    d[j] = dh[s * HID + j] = a;
    __syncthreads();
    if (dx && j < 2) {
        float t = 0;
        for (int k = 0; k < HID; k++)
            t += d[k] * net.w[j * HID + k];
        dx[2 * s + j] = t;
    }
}
__global__ void
netBackWeights(Net net, const float *x, const float *h, const float *dy, const float *dh, bool add)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= net.n)
        return;
    float t = add ? net.g[p] : 0.0f;
    for (int s = 0; s < BS; s++) {
        if (p < net.B1())
            t += x[2 * s + p / HID] * dh[s * HID + p % HID];
        else if (p < net.W2())
            t += dh[s * HID + p - net.B1()];
        else if (p < net.B2())
            t += h[s * HID + (p - net.W2()) / net.O] * dy[s * net.O + (p - net.W2()) % net.O];
        else
            t += dy[s * net.O + p - net.B2()];
    }
    net.g[p] = t;
}
__global__ void
adamStep(Net net, float lr, float c1, float c2)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= net.n)
        return;
    float g = net.g[p];
    float m = net.m[p] = 0.5f * net.m[p] + 0.5f * g;
    float v = net.v[p] = 0.99f * net.v[p] + 0.01f * g * g;
    net.w[p] -= lr * (m / c1) / (sqrtf(v / c2) + 1e-7f);
}

static unsigned rng = 8675309u;
static float
uniform()
{
    rng = rng * 1664525u + 1013904223u;
    return ((rng >> 9) + 0.5f) / 8388608.0f;
}
static float
normal()
{
    float a = uniform(), b = uniform();
    return sqrtf(-2 * logf(a)) * cosf(6.2831853f * b);
}

static Net
build(int O)
{
    Net n;
    n.O = O;
    n.n = 3 * HID + HID * O + O;
    float *all, *h = new float[n.n];
    cudaMalloc(&all, 4 * n.n * sizeof(float));
    cudaMemset(all, 0, 4 * n.n * sizeof(float));
    n.w = all;
    n.g = all + n.n;
    n.m = all + 2 * n.n;
    n.v = all + 3 * n.n;
    for (int i = 0; i < n.n; i++)
        h[i] = i >= n.B1() && i < n.W2() ? 0 : normal() * 0.4f;
    cudaMemcpy(n.w, h, n.n * sizeof(float), cudaMemcpyHostToDevice);
    delete[] h;
    return n;
}

int
main()
{
    Net G = build(2), D = build(1);
    float *real, *z, *fake, *hg, *hd, *y, *dy, *dh, *dfake, *loss, *stage, l[3];
    CUDA_CALL(cudaMalloc(&real, 2 * BS * 4));
    CUDA_CALL(cudaMalloc(&z, 2 * BS * 4));
    CUDA_CALL(cudaMalloc(&fake, 2 * BS * 4));
    CUDA_CALL(cudaMalloc(&hg, HID * BS * 4));
    CUDA_CALL(cudaMalloc(&hd, HID * BS * 4));
    CUDA_CALL(cudaMalloc(&y, BS * 4));
    CUDA_CALL(cudaMalloc(&dy, BS * 4));
    CUDA_CALL(cudaMalloc(&dh, HID * BS * 4));
    CUDA_CALL(cudaMalloc(&dfake, 2 * BS * 4));
    CUDA_CALL(cudaMalloc(&loss, 3 * 4));
    CUDA_CALL(cudaMallocHost(&stage, 4 * BS * 4));
    truth_by_state tbs;
    truth_list all = {{G.w, (size_t)G.n}, {G.m, (size_t)G.n}, {G.v, (size_t)G.n},
                      {D.w, (size_t)D.n}, {D.m, (size_t)D.n}, {D.v, (size_t)D.n}};
    const int gb = (G.n + 31) / 32, db = (D.n + 31) / 32;

    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < BS; i++) {
            stage[2 * i] = 1.5f + 0.5f * normal();
            stage[2 * i + 1] = -1.0f + 0.25f * normal();
            stage[2 * BS + 2 * i] = normal();
            stage[2 * BS + 2 * i + 1] = normal();
        }
        CUDA_CALL(cudaMemcpy(real, stage, 2 * BS * 4, cudaMemcpyHostToDevice));
        CUDA_CALL(cudaMemcpy(z, stage + 2 * BS, 2 * BS * 4, cudaMemcpyHostToDevice));
        float c1 = 1 - powf(0.5f, t), c2 = 1 - powf(0.99f, t);
        tbs.begin(all);
        // discriminator
        netForward<<<BS, HID>>>(G, z, hg, fake);
        netForward<<<BS, HID>>>(D, real, hd, y);
        bce<<<1, BS>>>(y, 1.0f, dy, loss);
        netBackHidden<<<BS, HID>>>(D, hd, dy, dh, (float *)0);
        netBackWeights<<<db, 32>>>(D, real, hd, dy, dh, false);
        netForward<<<BS, HID>>>(D, fake, hd, y);
        bce<<<1, BS>>>(y, 0.0f, dy, loss + 1);
        netBackHidden<<<BS, HID>>>(D, hd, dy, dh, (float *)0);
        netBackWeights<<<db, 32>>>(D, fake, hd, dy, dh, true);
        adamStep<<<db, 32>>>(D, 0.03f, c1, c2);
        // generator
        netForward<<<BS, HID>>>(D, fake, hd, y);
        bce<<<1, BS>>>(y, 1.0f, dy, loss + 2);
        netBackHidden<<<BS, HID>>>(D, hd, dy, dh, dfake);
        netBackHidden<<<BS, HID>>>(G, hg, dfake, dh, (float *)0);
        netBackWeights<<<gb, 32>>>(G, z, hg, dfake, dh, false);
        adamStep<<<gb, 32>>>(G, 0.03f, c1, c2);
        CUDA_CALL(cudaGetLastError());
        tbs.end();
        CUDA_CALL(cudaMemcpy(l, loss, sizeof l, cudaMemcpyDeviceToHost));
        CUDA_CALL(cudaMemcpy(stage, fake, 2 * BS * 4, cudaMemcpyDeviceToHost));
        float mx = 0, my = 0;
        for (int i = 0; i < BS; i++) {
            mx += stage[2 * i] / BS;
            my += stage[2 * i + 1] / BS;
        }
        if (t % 4 == 0 || t == 1)
            printf("%2d: D %.4f (real %.4f fake %.4f)  G %.4f  distance of means %.4f\n", t, l[0] + l[1], l[0], l[1],
                   l[2], hypotf(mx - 1.5f, my + 1.0f));
    }
    tbs.close();
    for (int i = 0; i < 2 * BS; i++)
        stage[i] = normal();
    CUDA_CALL(cudaMemcpy(z, stage, 2 * BS * 4, cudaMemcpyHostToDevice));
    netForward<<<BS, HID>>>(G, z, hg, fake);
    CUDA_CALL(cudaMemcpy(stage, fake, 2 * BS * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 6; i++)
        printf("sample %d: %.4f %.4f\n", i, stage[2 * i], stage[2 * i + 1]);
    truth_dump({{G.w, (size_t)G.n}, {D.w, (size_t)D.n}});
    cudaFreeHost(stage);
    cudaDeviceReset();
    return EXIT_SUCCESS;
}
