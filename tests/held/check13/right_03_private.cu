// Differentially private SGD: softmax regression, each example's gradient is clipped, Gaussian noise is added.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

class Generator { // splitmix64 and Box-Muller
public:
    explicit Generator(uint64_t seed) : s_(seed) {}
    double uniform()
    {
        uint64_t z = (s_ += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return ((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
    }
    float normal()
    {
        double r = std::sqrt(-2 * std::log(1 - uniform()));
        return (float)(r * std::cos(6.283185307179586 * uniform()));
    }

private:
    uint64_t s_;
};

struct Shape {
    int features, classes;
    __host__ __device__ int size() const { return features * classes; }
};

#define ASSERT_CUDA(x) if ((x) != cudaSuccess) { std::fprintf(stderr, "CUDA call failed in line %d\n", __LINE__); std::exit(1); }

__global__ void probabilities(Shape s, const float *x, const int *y, const float *w, float *p, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float total = 0;
    for (int c = 0; c < s.classes; ++c) {
        float z = 0;
        for (int k = 0; k < s.features; ++k) z += x[i * s.features + k] * w[k * s.classes + c];
        p[i * s.classes + c] = expf(z);
        total += expf(z);
    }
    for (int c = 0; c < s.classes; ++c) p[i * s.classes + c] /= total;
    loss[i] = -logf(p[i * s.classes + y[i]]);
}

// the norm of the gradient of one example is |x| |p - onehot|
__global__ void clip_factors(Shape s, const float *x, const int *y, const float *p, float *factor, float bound, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = 0, b = 0;
    for (int k = 0; k < s.features; ++k) a += x[i * s.features + k] * x[i * s.features + k];
    for (int c = 0; c < s.classes; ++c) {
        float d = p[i * s.classes + c] - (c == y[i]);
        b += d * d;
    }
    float norm = sqrtf(a * b);
    factor[i] = norm > bound ? bound / norm : 1.0f;
}

__global__ void private_gradient(Shape s, const float *x, const int *y, const float *p, const float *factor, const float *noise,
                                 float *g, float noise_scale, int n)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= s.size()) return;
    int k = id / s.classes, c = id % s.classes;
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += factor[i] * x[i * s.features + k] * (p[i * s.classes + c] - (c == y[i]));
    g[id] = sum / n + noise_scale * noise[id];
}

__global__ void update(float *w, const float *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate * g[i];
}

int main(int argc, char **argv)
{
    const Shape shape = {40, 6};
    const int batch = 50, records = 500, steps = argc > 2 ? std::atoi(argv[2]) : 60, size = shape.size();
    const float bound = 1.0f, noise_multiplier = 0.6f;
    Generator data(1), privacy(2);
    std::vector<float> x(records * shape.features), w(size), noise(size);
    std::vector<int> y(records);
    for (int i = 0; i < records; ++i) {
        y[i] = (int)(data.uniform() * shape.classes);
        for (int k = 0; k < shape.features; ++k) x[i * shape.features + k] = 0.5f * data.normal() + (k % shape.classes == y[i] ? 0.6f : 0.0f);
    }
    float *dx, *dw, *dg, *dp, *dl, *df, *dn;
    int *dy;
    ASSERT_CUDA(cudaMalloc(&dx, x.size() * sizeof(float)));
    ASSERT_CUDA(cudaMalloc(&dy, y.size() * sizeof(int)));
    ASSERT_CUDA(cudaMalloc(&dw, size * sizeof(float)));
    ASSERT_CUDA(cudaMalloc(&dg, size * sizeof(float)));
    ASSERT_CUDA(cudaMalloc(&dn, size * sizeof(float)));
    ASSERT_CUDA(cudaMalloc(&dp, batch * shape.classes * sizeof(float)));
    ASSERT_CUDA(cudaMalloc(&dl, batch * sizeof(float)));
    ASSERT_CUDA(cudaMalloc(&df, batch * sizeof(float)));
    ASSERT_CUDA(cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
    ASSERT_CUDA(cudaMemcpy(dy, y.data(), y.size() * sizeof(int), cudaMemcpyHostToDevice));
    ASSERT_CUDA(cudaMemset(dw, 0, size * sizeof(float)));
    DDP_PARAMETER(dw, size, DDP_FLOAT32);
    DDP_GRADIENT(dg, size, DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(batch, &first, &count);
        const int n = (int)count;
        const size_t at = (size_t)(step * batch) % records + first;
        const float *xs = dx + at * shape.features;
        const int *ys = dy + at;
        for (float &v : noise) v = privacy.normal();
        ASSERT_CUDA(cudaMemcpy(dn, noise.data(), size * sizeof(float), cudaMemcpyHostToDevice));
        probabilities<<<1, 64>>>(shape, xs, ys, dw, dp, dl, n);
        clip_factors<<<1, 64>>>(shape, xs, ys, dp, df, bound, n);
        private_gradient<<<(size + 63) / 64, 64>>>(shape, xs, ys, dp, df, dn, dg, noise_multiplier * bound / batch, n);
        DDP_STEP(0);
        update<<<(size + 63) / 64, 64>>>(dw, dg, 0.8f, size);

        std::vector<float> l(count);
        ASSERT_CUDA(cudaMemcpy(l.data(), dl, count * sizeof(float), cudaMemcpyDeviceToHost));
        float loss = 0;
        for (float v : l) loss += v / n;
        DDP_MEAN_AS("loss", &loss);
        if (step % 10 == 0 && DDP_RANK() == 0) std::printf("%2d  loss %.4f\n", step, loss);
    }
    ASSERT_CUDA(cudaMemcpy(w.data(), dw, size * sizeof(float), cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(w.data(), sizeof(float), size, f);
        std::fclose(f);
    }
    return 0;
}
