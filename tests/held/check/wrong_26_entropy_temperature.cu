// Classifier whose softmax temperature is controlled so that the mean entropy of
// the predictions stays near a target.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

struct Dims { int in, out, batch, data; };
constexpr Dims dims{12, 6, 32, 384};

__global__ void forward(const float *x, const int *y, const float *w, float temperature, float *d, float *loss, float *entropy, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    float p[dims.out], z = 0, h = 0;
    for (int c = 0; c < dims.out; ++c) {
        p[c] = 0;
        for (int i = 0; i < dims.in; ++i) p[c] += x[r * dims.in + i] * w[i * dims.out + c];
        z += p[c] = expf(p[c] / temperature);
    }
    for (int c = 0; c < dims.out; ++c) {
        float q = p[c] / z;
        h -= q * logf(q + 1e-9f);
        d[r * dims.out + c] = (q - (c == y[r])) / temperature / n;
        if (c == y[r]) loss[r] = -logf(q + 1e-9f);
    }
    entropy[r] = h;
}

__global__ void backward(const float *x, const float *d, float *g, int n)
{
    float s = 0;
    for (int r = 0; r < n; ++r) s += x[r * dims.in + blockIdx.x] * d[r * dims.out + threadIdx.x];
    g[blockIdx.x * dims.out + threadIdx.x] = s;
}

__global__ void sgd(float *w, const float *g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= 0.4f * g[i];
}

static float mean_of(const float *device, size_t n)
{
    std::vector<float> h(n);
    cudaMemcpy(h.data(), device, n * sizeof(float), cudaMemcpyDeviceToHost);
    float s = 0;
    for (float v : h) s += v;
    return s / n;
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::mt19937 g(71);
    std::normal_distribution<float> nd;
    std::vector<float> x(dims.data * dims.in);
    std::vector<int> y(dims.data);
    for (int i = 0; i < dims.data; ++i) {
        y[i] = g() % dims.out;
        for (int k = 0; k < dims.in; ++k) x[i * dims.in + k] = nd(g) + (k / 2 == y[i]);
    }
    const int P = dims.in * dims.out;
    float *dx, *w, *gw, *d, *loss, *entropy;
    int *dy;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dy, y.size() * 4); cudaMalloc(&w, P * 4); cudaMalloc(&gw, P * 4);
    cudaMalloc(&d, dims.batch * dims.out * 4); cudaMalloc(&loss, dims.batch * 4); cudaMalloc(&entropy, dims.batch * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), y.size() * 4, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, P * 4);
    DDP_PARAMETER(w, P, DDP_FLOAT32);
    DDP_GRADIENT(gw, P, DDP_FLOAT32);
    float temperature = 1.0f;
    for (int s = 0; s < steps; ++s) {
        size_t first, n;
        DDP_SHARD(dims.batch, &first, &n);
        size_t at = s * dims.batch % dims.data + first;
        forward<<<1, dims.batch>>>(dx + at * dims.in, dy + at, w, temperature, d, loss, entropy, (int)n);
        backward<<<dims.in, dims.out>>>(dx + at * dims.in, d, gw, (int)n);
        DDP_STEP(0);
        sgd<<<2, 64>>>(w, gw, P);
        temperature *= expf(0.15f * (1.0f - mean_of(entropy, n)));
        if (s % 10 == 9) {
            float l = mean_of(loss, n);
            DDP_MEAN(&l);
            if (DDP_RANK() == 0) printf("step %d loss %.4f temperature %.3f\n", s + 1, l, temperature);
        }
    }
    return 0;
}
