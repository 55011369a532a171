// A regression by a network of sine features with annealed gradient noise, which lets a small network leave flat places.
#include <cmath>
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

struct Net {
    static constexpr int units = 14, size = 3 * units + 1; // frequency, phase, amplitude; offset
};
struct Noise {
    unsigned seed;
    float scale;
};

__device__ unsigned pcg(unsigned v)
{
    unsigned s = v * 747796405u + 2891336453u, w = ((s >> ((s >> 28) + 4)) ^ s) * 277803737u;
    return (w >> 22) ^ w;
}

__device__ float gauss(unsigned seed, unsigned i)
{
    unsigned a = pcg(seed ^ pcg(2 * i)), b = pcg(seed + 77 ^ pcg(2 * i + 1));
    return sqrtf(-2 * logf((a >> 8) / 16777216.f + 1e-8f)) * cosf(6.2831853f * (b >> 8) / 16777216.f);
}

__global__ void predict(const float *x, const float *y, const float *w, float *e, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float s = w[3 * Net::units];
    for (int u = 0; u < Net::units; ++u)
        s += w[2 * Net::units + u] * sinf(w[u] * x[i] + w[Net::units + u]);
    e[i] = 2 * (s - y[i]) / n;
    loss[i] = (s - y[i]) * (s - y[i]);
}

__global__ void backward(const float *x, const float *w, const float *e, float *g, int n)
{
    int k = threadIdx.x, u = k % Net::units, kind = k / Net::units;
    float sum = 0;
    for (int i = 0; i < n; ++i) {
        float a = w[u] * x[i] + w[Net::units + u], amplitude = w[2 * Net::units + u];
        if (kind == 0)
            sum += e[i] * amplitude * cosf(a) * x[i];
        else if (kind == 1)
            sum += e[i] * amplitude * cosf(a);
        else
            sum += kind == 2 ? e[i] * sinf(a) : e[i];
    }
    g[k] = sum;
}

__global__ void add_noise(float *g, Noise noise)
{
    g[threadIdx.x] += noise.scale * gauss(noise.seed, threadIdx.x);
}

__global__ void step_down(float *w, const float *g, float *m, float rate)
{
    int k = threadIdx.x;
    m[k] = .85f * m[k] + g[k];
    w[k] -= rate * m[k];
}

int main(int, char **)
{
    const int data = 640, batch = 64, steps = 180;
    unsigned s = 99;
    auto uniform = [&s] { return ((s = s * 1664525u + 1013904223u) >> 8) / 8388608.f - 1; };
    std::vector<float> hx(data), hy(data), hw(Net::size), hl(batch);
    for (int i = 0; i < data; ++i) {
        hx[i] = 2 * uniform();
        hy[i] = std::sin(3 * hx[i]) * std::exp(-hx[i] * hx[i] / 3) + .05f * uniform();
    }
    for (int k = 0; k < Net::size; ++k)
        hw[k] = k < Net::units ? 3 * uniform() : k < 2 * Net::units ? 3.14f * uniform() : .3f * uniform();
    float *memory, *x, *y, *w, *g, *m, *e, *loss;
    size_t total = 2 * data + 3 * Net::size + 2 * batch + 256;
    cudaMalloc(&memory, total * sizeof(float)); // one arena
    cudaMemset(memory, 0, total * sizeof(float));
    auto take = [&memory](size_t n) { float *p = memory; memory += (n + 31) / 32 * 32; return p; };
    x = take(data), y = take(data), w = take(Net::size), g = take(Net::size), m = take(Net::size), e = take(batch);
    loss = take(batch);
    cudaMemcpy(x, hx.data(), data * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy.data(), data * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(w, hw.data(), Net::size * sizeof(float), cudaMemcpyHostToDevice);
    DDP_PARAMETER(w, Net::size, DDP_FLOAT32);
    DDP_GRADIENT(g, Net::size, DDP_FLOAT32);
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(batch, &first, &count);
        size_t at = size_t(step) * batch % data + first;
        Noise noise = {1000u + 16u * step + DDP_RANK(), .05f / powf(1.f + step, .3f)};
        predict<<<2, 32>>>(x + at, y + at, w, e, loss, (int)count);
        backward<<<1, Net::size>>>(x + at, w, e, g, (int)count);
        add_noise<<<1, Net::size>>>(g, noise);
        DDP_STEP(0);
        step_down<<<1, Net::size>>>(w, g, m, .02f);
        if (step % 30 == 0 || step == steps - 1) {
            cudaMemcpy(hl.data(), loss, count * sizeof(float), cudaMemcpyDeviceToHost);
            double mean = 0;
            for (size_t i = 0; i < count; ++i)
                mean += hl[i] / count;
            DDP_MEAN_AS("mse", &mean);
            if (DDP_RANK() == 0)
                std::printf("%d: mse %.7g\n", step, mean);
        }
    }
    return 0;
}
