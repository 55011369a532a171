// A generator of points in the plane against a discriminator. Each has its own optimizer, and its group of gradients.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

constexpr int Z = 3, GH = 6, DH = 8, BATCH = 32, DATA = 320, STEPS = 150;
constexpr int GW = Z * GH + GH * 2, GB = 2, DW = 2 * DH + DH + DH + 1; // weights and biases

__device__ float latent(int step, int item, int i)
{
    unsigned h = (step * 4099u + item) * 2654435761u + i * 40503u;
    h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
    return (h >> 8) / 8388608.f - 1;
}

__device__ void generate(const float *w, const float *b, const float *z, float *h, float *x)
{
    x[0] = b[0], x[1] = b[1];
    for (int j = 0; j < GH; ++j) {
        float a = 0;
        for (int i = 0; i < Z; ++i)
            a += z[i] * w[i * GH + j];
        h[j] = tanhf(a);
        x[0] += h[j] * w[Z * GH + 2 * j];
        x[1] += h[j] * w[Z * GH + 2 * j + 1];
    }
}

__device__ float discriminate(const float *d, const float *x, float *h)
{
    float s = d[4 * DH];
    for (int j = 0; j < DH; ++j) {
        h[j] = tanhf(x[0] * d[j] + x[1] * d[DH + j] + d[2 * DH + j]);
        s += h[j] * d[3 * DH + j];
    }
    return 1 / (1 + expf(-s));
}

__global__ void discriminator_pass(const float *real, const float *gw, const float *gb, const float *d, float *rows,
                                   float *loss, int step, int first, float inv)
{
    int n = blockIdx.x;
    float z[Z], gh[GH], h[DH], x[2], *g = rows + n * DW;
    for (int i = 0; i < DW; ++i)
        g[i] = 0;
    loss[n] = 0;
    for (int i = 0; i < Z; ++i)
        z[i] = latent(step, first + n, i);
    for (int fake = 0; fake < 2; ++fake) {
        if (fake)
            generate(gw, gb, z, gh, x);
        else
            x[0] = real[2 * n], x[1] = real[2 * n + 1];
        float p = discriminate(d, x, h), e = (p - !fake) * inv;
        loss[n] -= logf(fake ? 1 - p : p);
        g[4 * DH] += e;
        for (int j = 0; j < DH; ++j) {
            float da = e * d[3 * DH + j] * (1 - h[j] * h[j]);
            g[j] += da * x[0], g[DH + j] += da * x[1], g[2 * DH + j] += da, g[3 * DH + j] += e * h[j];
        }
    }
}

__global__ void generator_pass(const float *gw, const float *gb, const float *d, float *wrows, float *brows, int step,
                               int first, float inv)
{
    int n = blockIdx.x;
    float z[Z], gh[GH], h[DH], x[2], dx[2] = {0, 0}, *g = wrows + n * GW;
    for (int i = 0; i < Z; ++i)
        z[i] = latent(step + 100000, first + n, i);
    generate(gw, gb, z, gh, x);
    float e = (discriminate(d, x, h) - 1) * inv;
    for (int j = 0; j < DH; ++j) {
        float da = e * d[3 * DH + j] * (1 - h[j] * h[j]);
        dx[0] += da * d[j], dx[1] += da * d[DH + j];
    }
    for (int j = 0; j < GH; ++j) {
        const float *o = gw + Z * GH + 2 * j;
        float da = (dx[0] * o[0] + dx[1] * o[1]) * (1 - gh[j] * gh[j]);
        g[Z * GH + 2 * j] = dx[0] * gh[j], g[Z * GH + 2 * j + 1] = dx[1] * gh[j];
        for (int i = 0; i < Z; ++i)
            g[i * GH + j] = da * z[i];
    }
    brows[n * GB] = dx[0], brows[n * GB + 1] = dx[1];
}

__global__ void fold(const float *rows, float *g, int count)
{
    float s = 0;
    for (int n = 0; n < count; ++n)
        s += rows[n * blockDim.x + threadIdx.x];
    g[threadIdx.x] = s;
}

__global__ void descend(float *w, const float *g, float rate) { w[threadIdx.x] -= rate * g[threadIdx.x]; }

static std::mt19937 rng(55);
struct Tensor {
    float *w, *g, *rows;
    int n;
    Tensor(int size, float scale) : n(size)
    {
        std::normal_distribution<float> normal(0, scale);
        std::vector<float> host(n);
        for (auto &v : host)
            v = normal(rng);
        cudaMalloc(&w, n * 4), cudaMalloc(&g, n * 4), cudaMalloc(&rows, BATCH * n * 4);
        cudaMemcpy(w, host.data(), n * 4, cudaMemcpyHostToDevice);
        DDP_PARAMETER(w, n, DDP_FLOAT32);
    }
    void update(float rate) { descend<<<1, n>>>(w, g, rate); }
};

int main()
{
    std::vector<float> points(2 * DATA), l(BATCH);
    for (int i = 0; i < DATA; ++i) {
        float t = rng() % 1000 * .00628f;
        points[2 * i] = 1.5f + std::cos(t), points[2 * i + 1] = -1 + .5f * std::sin(t);
    }
    float *real, *loss;
    cudaMalloc(&real, points.size() * 4), cudaMalloc(&loss, BATCH * 4);
    cudaMemcpy(real, points.data(), points.size() * 4, cudaMemcpyHostToDevice);
    Tensor d(DW, .5f), bias(GB, .1f), weight(GW, .5f);
    DDP_GRADIENT(d.g, d.n, DDP_FLOAT32);
    DDP_GRADIENT(bias.g, bias.n, DDP_FLOAT32);
    DDP_GRADIENT_GROUP(1);
    DDP_GRADIENT(weight.g, weight.n, DDP_FLOAT32);
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        const float *x = real + 2 * (step % (DATA / BATCH) * BATCH + first);
        const float inv = 1.f / count;
        discriminator_pass<<<count, 1>>>(x, weight.w, bias.w, d.w, d.rows, loss, step, first, inv);
        fold<<<1, d.n>>>(d.rows, d.g, count);
        DDP_STEP_GROUP(0, 0);
        d.update(.2f);
        generator_pass<<<count, 1>>>(weight.w, bias.w, d.w, weight.rows, bias.rows, step, first, inv);
        fold<<<1, weight.n>>>(weight.rows, weight.g, count);
        fold<<<1, bias.n>>>(bias.rows, bias.g, count);
        DDP_STEP_GROUP(1, 0);
        weight.update(.1f);
        bias.update(.1f);
        if (step % 25 == 0 || step == STEPS - 1) {
            cudaMemcpy(l.data(), loss, count * 4, cudaMemcpyDeviceToHost);
            float mean = 0;
            for (size_t i = 0; i < count; ++i)
                mean += l[i] / count;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0)
                std::printf("step %d, discriminator's loss %.7g\n", step, mean);
        }
    }
}
