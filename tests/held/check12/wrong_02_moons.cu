// Two-moons classifier: 2 -> 64 tanh, dropout -> 1, logistic loss, Adam.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdint>
#include <vector>
#include "ddprun.h"

constexpr int N = 640, B = 64, H = 64, STEPS = 60;
constexpr int NW1 = 2 * H, NB1 = H, NW2 = H, NB2 = 1, NP = NW1 + NB1 + NW2 + NB2;
constexpr float KEEP = 0.7f;

struct Lcg {
    uint64_t s;
    float next() { s = s * 6364136223846793005ull + 1442695040888963407ull; return (s >> 40) / 16777216.0f; }
};

__device__ uint32_t mix(uint32_t a)
{
    a ^= a >> 16; a *= 0x7feb352du; a ^= a >> 15; a *= 0x846ca68bu; a ^= a >> 16;
    return a;
}

struct Net {
    float *p;
    __host__ __device__ float *w1() const { return p; }
    __host__ __device__ float *b1() const { return p + NW1; }
    __host__ __device__ float *w2() const { return p + NW1 + NB1; }
    __host__ __device__ float *b2() const { return p + NW1 + NB1 + NW2; }
};

__global__ void hidden(Net net, const float *x, float *h, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * H) return;
    int i = t / H, j = t % H;
    h[t] = tanhf(net.b1()[j] + net.w1()[2 * j] * x[2 * i] + net.w1()[2 * j + 1] * x[2 * i + 1]);
}

__global__ void make_mask(float *mask, int n, uint32_t seed)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n)
        mask[t] = (mix(seed * 0x9e3779b9u + t) >> 8) < KEEP * 16777216.0f ? 1.0f / KEEP : 0.0f;
}

__global__ void output(Net net, const float *h, const float *mask, const float *y, float *dz, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z = net.b2()[0];
    for (int j = 0; j < H; ++j)
        z += net.w2()[j] * h[i * H + j] * mask[i * H + j];
    float q = 1.0f / (1.0f + expf(-z));
    loss[i] = -(y[i] > 0.5f ? logf(q + 1e-7f) : logf(1.0f - q + 1e-7f));
    dz[i] = (q - y[i]) / n;
}

__global__ void gradient(Net net, Net g, const float *x, const float *h, const float *mask, const float *dz, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= H) return;
    float gw2 = 0, gb1 = 0, g0 = 0, g1 = 0, gb2 = 0;
    for (int i = 0; i < n; ++i) {
        float a = h[i * H + j], m = mask[i * H + j];
        gw2 += dz[i] * a * m;
        float d = dz[i] * net.w2()[j] * m * (1.0f - a * a);
        gb1 += d;
        g0 += d * x[2 * i];
        g1 += d * x[2 * i + 1];
        gb2 += dz[i];
    }
    g.w2()[j] = gw2;
    g.b1()[j] = gb1;
    g.w1()[2 * j] = g0;
    g.w1()[2 * j + 1] = g1;
    if (j == 0)
        g.b2()[0] = gb2;
}

__global__ void adam(Net net, Net g, float *m, float *v, int n, float rate, float c1, float c2)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    m[t] = 0.9f * m[t] + 0.1f * g.p[t];
    v[t] = 0.99f * v[t] + 0.01f * g.p[t] * g.p[t];
    net.p[t] -= rate * (m[t] / c1) / (sqrtf(v[t] / c2) + 1e-4f);
}

int main(int argc, char **argv)
{
    Lcg r{42};
    std::vector<float> x(2 * N), y(N), w(NP);
    for (int i = 0; i < N; ++i) {
        float t = 3.14159f * r.next();
        int c = r.next() < 0.5f;
        y[i] = c;
        x[2 * i] = (c ? 1.0f - cosf(t) : cosf(t)) + 0.2f * (r.next() - 0.5f);
        x[2 * i + 1] = (c ? 0.5f - sinf(t) : sinf(t)) + 0.2f * (r.next() - 0.5f);
    }
    for (int i = 0; i < NW1 + NB1; ++i) w[i] = 2.0f * (r.next() - 0.5f);
    for (int i = 0; i < NW2; ++i) w[NW1 + NB1 + i] = 0.3f * (r.next() - 0.5f);

    Net net, grad;
    float *m, *v, *dx, *dy, *h, *mask, *dz, *loss;
    cudaMalloc(&net.p, NP * 4); cudaMalloc(&grad.p, NP * 4); cudaMalloc(&m, NP * 4); cudaMalloc(&v, NP * 4);
    cudaMalloc(&dx, 2 * N * 4); cudaMalloc(&dy, N * 4);
    cudaMalloc(&h, B * H * 4); cudaMalloc(&mask, B * H * 4); cudaMalloc(&dz, B * 4); cudaMalloc(&loss, B * 4);
    cudaMemset(m, 0, NP * 4); cudaMemset(v, 0, NP * 4);
    cudaMemcpy(net.p, w.data(), NP * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dx, x.data(), 2 * N * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), N * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(net.p, NP, DDP_FLOAT32);
    DDP_GRADIENT(grad.p, NP, DDP_FLOAT32);

    for (int step = 1; step <= STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        int n = (int)count;
        size_t row = (size_t)((step - 1) % (N / B)) * B + first;
        hidden<<<(n * H + 127) / 128, 128>>>(net, dx + 2 * row, h, n);
        make_mask<<<(n * H + 127) / 128, 128>>>(mask, n * H, step);
        output<<<1, B>>>(net, h, mask, dy + row, dz, loss, n);
        gradient<<<1, H>>>(net, grad, dx + 2 * row, h, mask, dz, n);
        DDP_STEP(0);
        adam<<<(NP + 127) / 128, 128>>>(net, grad, m, v, NP, 0.02f, 1.0f - powf(0.9f, step), 1.0f - powf(0.99f, step));
        if (step % 10 == 0 || step == 1) {
            std::vector<float> l(n);
            cudaMemcpy(l.data(), loss, n * 4, cudaMemcpyDeviceToHost);
            float s = 0;
            for (float a : l) s += a / n;
            DDP_MEAN_AS("loss", &s);
            if (DDP_RANK() == 0) std::printf("%3d %.4f\n", step, s);
        }
    }
    cudaMemcpy(w.data(), net.p, NP * 4, cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *o = std::fopen(argv[1], "wb");
        std::fwrite(w.data(), 4, NP, o);
        std::fclose(o);
    }
    return 0;
}
