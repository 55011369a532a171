// LSTM on the adding problem (Hochreiter & Schmidhuber): sum the two marked numbers of a sequence.
// usage: ./train [batch size] [steps]
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

constexpr int H = 16;
constexpr int I = 2;
constexpr int L = 8;   // sequence length

// offsets of the tensors in the arena, in floats
enum : int {
    WX = 0,                 // I x 4H
    WH = WX + I * 4 * H,    // H x 4H
    BG = WH + H * 4 * H,    // 4H
    WY = BG + 4 * H,        // H
    BY = WY + H,            // 1
    NPARAM = BY + 1
};

// the arena: weights, gradients, first and second moments
struct Arena {
    float *base;
    __host__ __device__ float *weights() const { return base; }
    __host__ __device__ float *grads() const { return base + NPARAM; }
    __host__ __device__ float *m() const { return base + 2 * NPARAM; }
    __host__ __device__ float *v() const { return base + 3 * NPARAM; }
};

struct Cache {
    float *gates;   // L x B x 4H
    float *c, *h;   // (L + 1) x B x H
};

__device__ float sigm(float x) { return 1.f / (1.f + expf(-x)); }

// a block runs one sequence, thread j is unit j
__global__ void lstm_forward(const float *p, const float *x, Cache k, float *y)
{
    __shared__ float hs[H];
    const int b = blockIdx.x, B = gridDim.x, j = threadIdx.x;
    float c = 0.f;
    hs[j] = 0.f;
    k.c[b * H + j] = 0.f;
    k.h[b * H + j] = 0.f;
    __syncthreads();
    for (int t = 0; t < L; ++t) {
        float a[4];
        for (int g = 0; g < 4; ++g) {
            float s = p[BG + g * H + j];
            for (int i = 0; i < I; ++i)
                s += x[(t * B + b) * I + i] * p[WX + i * 4 * H + g * H + j];
            for (int i = 0; i < H; ++i)
                s += hs[i] * p[WH + i * 4 * H + g * H + j];
            a[g] = g == 2 ? tanhf(s) : sigm(s);
            k.gates[(t * B + b) * 4 * H + g * H + j] = a[g];
        }
        c = a[1] * c + a[0] * a[2];
        const float h = a[3] * tanhf(c);
        __syncthreads();
        hs[j] = h;
        k.c[((t + 1) * B + b) * H + j] = c;
        k.h[((t + 1) * B + b) * H + j] = h;
        __syncthreads();
    }
    if (j == 0) {
        float s = p[BY];
        for (int i = 0; i < H; ++i)
            s += hs[i] * p[WY + i];
        y[b] = s;
    }
}

__global__ void lstm_backward(const float *p, float *g, const float *x, const float *target, Cache k, const float *y, float *loss)
{
    __shared__ float da[4 * H];
    const int b = blockIdx.x, B = gridDim.x, j = threadIdx.x;
    const float e = y[b] - target[b];
    const float dy = 2.f * e / gridDim.x;
    if (j == 0) {
        atomicAdd(loss, e * e / gridDim.x);
        atomicAdd(&g[BY], dy);
    }
    atomicAdd(&g[WY + j], dy * k.h[(L * B + b) * H + j]);
    float dh = dy * p[WY + j], dc = 0.f;
    for (int t = L - 1; t >= 0; --t) {
        const float *a = &k.gates[(t * B + b) * 4 * H];
        const float in = a[j], forget = a[H + j], cell = a[2 * H + j], out = a[3 * H + j];
        const float tc = tanhf(k.c[((t + 1) * B + b) * H + j]);
        dc += dh * out * (1.f - tc * tc);
        da[j] = dc * cell * in * (1.f - in);
        da[H + j] = dc * k.c[(t * B + b) * H + j] * forget * (1.f - forget);
        da[2 * H + j] = dc * in * (1.f - cell * cell);
        da[3 * H + j] = dh * tc * out * (1.f - out);
        dc *= forget;
        __syncthreads();
        for (int q = 0; q < 4; ++q) {
            const float d = da[q * H + j];
            atomicAdd(&g[BG + q * H + j], d);
            for (int i = 0; i < I; ++i)
                atomicAdd(&g[WX + i * 4 * H + q * H + j], d * x[(t * B + b) * I + i]);
            for (int i = 0; i < H; ++i)
                atomicAdd(&g[WH + i * 4 * H + q * H + j], d * k.h[(t * B + b) * H + i]);
        }
        dh = 0.f;
        for (int q = 0; q < 4 * H; ++q)
            dh += da[q] * p[WH + j * 4 * H + q];
        __syncthreads();
    }
}

__global__ void squared_norm(const float *g, float *out)
{
    __shared__ float s[128];
    float a = 0.f;
    for (int i = threadIdx.x; i < NPARAM; i += 128)
        a += g[i] * g[i];
    s[threadIdx.x] = a;
    __syncthreads();
    for (int w = 64; w > 0; w >>= 1) {
        if (threadIdx.x < w)
            s[threadIdx.x] += s[threadIdx.x + w];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *out = s[0];
}

__global__ void adam(Arena a, const float *norm2, float clip, float lr, int t)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= NPARAM)
        return;
    const float norm = sqrtf(*norm2);
    const float g = a.grads()[i] * (norm > clip ? clip / norm : 1.f);
    const float m = a.m()[i] = 0.9f * a.m()[i] + 0.1f * g;
    const float v = a.v()[i] = 0.999f * a.v()[i] + 0.001f * g * g;
    a.weights()[i] -= lr * (m / (1.f - powf(0.9f, t))) / (sqrtf(v / (1.f - powf(0.999f, t))) + 1e-8f);
}

int main(int argc, char *argv[])
{
    const int B = argc > 1 ? std::atoi(argv[1]) : 64;
    const int steps = argc > 2 ? std::atoi(argv[2]) : 160;

    std::mt19937 rng(77);
    std::uniform_real_distribution<float> unit(0.f, 1.f);

    Arena arena;
    cudaMalloc(&arena.base, 4 * NPARAM * sizeof(float));
    cudaMemset(arena.base, 0, 4 * NPARAM * sizeof(float));
    std::vector<float> init(NPARAM, 0.f);
    for (int i = 0; i < BG; ++i)
        init[i] = (unit(rng) - 0.5f) * 2.f / std::sqrt((float)H);
    for (int i = 0; i < H; ++i) {
        init[BG + H + i] = 1.f;   // the forget gates are open
        init[WY + i] = (unit(rng) - 0.5f) * 0.4f;
    }
    cudaMemcpy(arena.weights(), init.data(), NPARAM * sizeof(float), cudaMemcpyHostToDevice);

    // one more allocation for all activations
    const size_t nx = (size_t)L * B * I, ng = (size_t)L * B * 4 * H, nc = (size_t)(L + 1) * B * H;
    float *pool;
    cudaMalloc(&pool, (nx + ng + 2 * nc + 2 * B + 2) * sizeof(float));
    float *d_x = pool, *d_target = d_x + nx, *d_y = d_target + B, *d_loss = d_y + B, *d_norm = d_loss + 1;
    Cache cache{d_norm + 1, d_norm + 1 + ng, d_norm + 1 + ng + nc};

    std::vector<float> x(nx), target(B);
    float running = 0.f;
    for (int step = 1; step <= steps; ++step) {
        // time major: the values at time t of all sequences are neighbours
        for (int b = 0; b < B; ++b) {
            const int first = rng() % (L / 2), second = L / 2 + rng() % (L / 2);
            target[b] = 0.f;
            for (int t = 0; t < L; ++t) {
                const bool marked = t == first || t == second;
                const float v = unit(rng);
                x[(t * B + b) * I] = v;
                x[(t * B + b) * I + 1] = marked ? 1.f : 0.f;
                if (marked)
                    target[b] += v;
            }
        }
        cudaMemcpy(d_x, x.data(), nx * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(d_target, target.data(), B * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemset(arena.grads(), 0, NPARAM * sizeof(float));
        cudaMemset(d_loss, 0, sizeof(float));

        lstm_forward<<<B, H>>>(arena.weights(), d_x, cache, d_y);
        lstm_backward<<<B, H>>>(arena.weights(), arena.grads(), d_x, d_target, cache, d_y, d_loss);
        squared_norm<<<1, 128>>>(arena.grads(), d_norm);
        adam<<<(NPARAM + 255) / 256, 256>>>(arena, d_norm, 1.f, 0.01f, step);

        float loss;
        cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
        running = step == 1 ? loss : 0.95f * running + 0.05f * loss;
        if (step == 1 || step % 20 == 0)
            printf("step %d: loss %.5f, running %.5f\n", step, loss, running);
    }
    cudaFree(pool);
    cudaFree(arena.base);
    return 0;
}
