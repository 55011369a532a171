// A small network with sine activations (SIREN) learns a function of the plane in double precision.
// Sample points are drawn on the device in every step; no data set exists.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

using real = double;
using counter = unsigned long long;

constexpr int WIDTH = 24;
constexpr real OMEGA = 3.0;

__device__ real uniform(counter c)
{
    c += 0x9e3779b97f4a7c15ull;
    c = (c ^ (c >> 30)) * 0xbf58476d1ce4e5b9ull;
    c = (c ^ (c >> 27)) * 0x94d049bb133111ebull;
    c ^= c >> 31;
    return (c >> 11) * (1.0 / 9007199254740992.0);
}

__global__ void draw_points(real *points, real *target, int n, counter base)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    real x = 2 * uniform(2 * (base + i)) - 1, y = 2 * uniform(2 * (base + i) + 1) - 1;
    points[2 * i] = x;
    points[2 * i + 1] = y;
    target[i] = sin(3 * x) * cos(2 * y) + 0.5 * x * y;
}

__global__ void sine_layer(const real *in, const real *w, const real *b, real *pre, real *out, int n, int inputs, int width)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n * width) return;
    int i = id / width, j = id % width;
    real z = b[j];
    for (int k = 0; k < inputs; ++k) z += in[i * inputs + k] * w[k * width + j];
    pre[id] = OMEGA * z;
    out[id] = sin(pre[id]);
}

__global__ void output_layer(const real *in, const real *w, const real *b, const real *target, real *delta, real *loss, int n, int width)
{
    __shared__ real part[64];
    real mine = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        real y = b[0];
        for (int k = 0; k < width; ++k) y += in[i * width + k] * w[k];
        real e = y - target[i];
        delta[i] = 2 * e / n;
        mine += e * e;
    }
    part[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        real s = 0;
        for (int k = 0; k < blockDim.x; ++k) s += part[k];
        *loss = s / n;
    }
}

__global__ void parameter_gradient(const real *in, const real *delta, real *gw, real *gb, int n, int inputs, int width)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= (inputs + 1) * width) return;
    int k = id / width, j = id % width;
    real s = 0;
    if (k < inputs) {
        for (int i = 0; i < n; ++i) s += in[i * inputs + k] * delta[i * width + j];
        gw[k * width + j] = s;
    } else {
        for (int i = 0; i < n; ++i) s += delta[i * width + j];
        gb[j] = s;
    }
}

__global__ void input_gradient(const real *delta, const real *w, const real *pre, real *out, int n, int inputs, int width)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n * inputs) return;
    int i = id / inputs, k = id % inputs;
    real s = 0;
    for (int j = 0; j < width; ++j) s += delta[i * width + j] * w[k * width + j];
    out[id] = s * OMEGA * cos(pre[id]);
}

__global__ void adam(real *w, const real *g, real *m, real *v, int n, real rate, int t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9 * m[i] + 0.1 * g[i];
    v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
    w[i] -= rate * (m[i] / (1 - pow(0.9, (real)t))) / (sqrt(v[i] / (1 - pow(0.999, (real)t))) + 1e-10);
}

template <typename T>
T *gpu_alloc(int count)
{
    void *p = nullptr;
    if (cudaMalloc(&p, count * sizeof(T)) != cudaSuccess || cudaMemset(p, 0, count * sizeof(T)) != cudaSuccess) {
        fprintf(stderr, "no memory on the GPU\n");
        exit(EXIT_FAILURE);
    }
    return static_cast<T *>(p);
}

struct LayerParams {
    int in, out;
    real *w, *b, *gw, *gb, *mw, *mb, *vw, *vb;

    LayerParams(int i, int o, real range, std::mt19937_64 &rng) : in(i), out(o)
    {
        for (real **p : {&w, &gw, &mw, &vw}) *p = gpu_alloc<real>(in * out);
        for (real **p : {&b, &gb, &mb, &vb}) *p = gpu_alloc<real>(out);
        std::uniform_real_distribution<real> u(-range, range);
        std::vector<real> h(in * out);
        for (real &x : h) x = u(rng);
        cudaMemcpy(w, h.data(), h.size() * sizeof(real), cudaMemcpyHostToDevice);
    }
    void update(real rate, int t)
    {
        adam<<<(in * out + 63) / 64, 64>>>(w, gw, mw, vw, in * out, rate, t);
        adam<<<(out + 63) / 64, 64>>>(b, gb, mb, vb, out, rate, t);
    }
};

int main(int argc, char **argv)
{
    const int batch = 64;
    const int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::mt19937_64 rng(6);
    LayerParams l1(2, WIDTH, 0.5, rng), l2(WIDTH, WIDTH, std::sqrt(6.0 / WIDTH) / OMEGA, rng), l3(WIDTH, 1, 0.3, rng);

    real *points = gpu_alloc<real>(batch * 2), *target = gpu_alloc<real>(batch), *loss = gpu_alloc<real>(1);
    real *z1 = gpu_alloc<real>(batch * WIDTH), *a1 = gpu_alloc<real>(batch * WIDTH), *d1 = gpu_alloc<real>(batch * WIDTH);
    real *z2 = gpu_alloc<real>(batch * WIDTH), *a2 = gpu_alloc<real>(batch * WIDTH), *d2 = gpu_alloc<real>(batch * WIDTH);
    real *d3 = gpu_alloc<real>(batch);
    const int bw = (batch * WIDTH + 127) / 128;

    for (int t = 1; t <= steps; ++t) {
        draw_points<<<(batch + 31) / 32, 32>>>(points, target, batch, (counter)(t - 1) * batch);
        sine_layer<<<bw, 128>>>(points, l1.w, l1.b, z1, a1, batch, 2, WIDTH);
        sine_layer<<<bw, 128>>>(a1, l2.w, l2.b, z2, a2, batch, WIDTH, WIDTH);
        output_layer<<<1, 64>>>(a2, l3.w, l3.b, target, d3, loss, batch, WIDTH);

        parameter_gradient<<<1, WIDTH + 1>>>(a2, d3, l3.gw, l3.gb, batch, WIDTH, 1);
        input_gradient<<<bw, 128>>>(d3, l3.w, z2, d2, batch, WIDTH, 1);
        parameter_gradient<<<((WIDTH + 1) * WIDTH + 63) / 64, 64>>>(a1, d2, l2.gw, l2.gb, batch, WIDTH, WIDTH);
        input_gradient<<<bw, 128>>>(d2, l2.w, z1, d1, batch, WIDTH, WIDTH);
        parameter_gradient<<<(3 * WIDTH + 63) / 64, 64>>>(points, d1, l1.gw, l1.gb, batch, 2, WIDTH);

        const real rate = 0.02 * std::pow(0.5, t / 30.0);
        l1.update(rate, t);
        l2.update(rate, t);
        l3.update(rate, t);

        real h;
        cudaMemcpy(&h, loss, sizeof h, cudaMemcpyDeviceToHost);
        if (t == 1 || t % 10 == 0) printf("%3d  mean squared error %.8f\n", t, h);
    }
    return 0;
}
