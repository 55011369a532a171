// Polynomial-feature regression of kiln temperatures (two outputs); the rate follows a "bold driver" on held-out data.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

namespace kiln {

const int kFeatures = 20, kHidden = 24, kTargets = 2;

struct Random {
    unsigned v = 0xC0FFEEu;
    float operator()() { v = v * 1664525u + 1013904223u; return ((v >> 8) & 0xffff) / 32768.0f - 1.0f; }
};

struct Dataset {
    std::vector<float> x, t;
    float *dx = nullptr, *dt = nullptr;
    int n;
    Dataset(int n_, Random &r) : x(n_ * kFeatures), t(n_ * kTargets), n(n_)
    {
        for (int i = 0; i < n; ++i) {
            float a = r(), b = r(), c = r(), d = r();
            float base[5] = {a, b, c, d, 0.5f};
            for (int k = 0; k < kFeatures; ++k) x[i * kFeatures + k] = 1.3f * base[k % 5] * base[(k / 5 + k) % 5];
            t[i * 2] = a * b - 0.7f * c + 0.4f * r();
            t[i * 2 + 1] = sinf(2 * d) + c * c + 0.4f * r();
        }
        cudaMalloc(&dx, x.size() * sizeof(float));
        cudaMalloc(&dt, t.size() * sizeof(float));
        cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(dt, t.data(), t.size() * sizeof(float), cudaMemcpyHostToDevice);
    }
};

__global__ void predict(const float *w1, const float *w2, const float *x, const float *t, float *h, float *err, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    for (int j = 0; j < kHidden; ++j) {
        float a = w1[kFeatures * kHidden + j];
        for (int k = 0; k < kFeatures; ++k) a += x[r * kFeatures + k] * w1[k * kHidden + j];
        h[r * kHidden + j] = tanhf(a);
    }
    for (int o = 0; o < kTargets; ++o) {
        float a = w2[kHidden * kTargets + o];
        for (int j = 0; j < kHidden; ++j) a += h[r * kHidden + j] * w2[j * kTargets + o];
        err[r * kTargets + o] = a - t[r * kTargets + o];
    }
}

__global__ void output_gradient(const float *h, const float *err, float *g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (kHidden + 1) * kTargets) return;
    int j = i / kTargets, o = i % kTargets;
    float a = 0;
    for (int r = 0; r < n; ++r) a += (j < kHidden ? h[r * kHidden + j] : 1.0f) * err[r * kTargets + o];
    g[i] = a / n;
}

__global__ void hidden_gradient(const float *x, const float *h, const float *err, const float *w2, float *g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (kFeatures + 1) * kHidden) return;
    int k = i / kHidden, j = i % kHidden;
    float a = 0;
    for (int r = 0; r < n; ++r) {
        float d = 0, q = h[r * kHidden + j];
        for (int o = 0; o < kTargets; ++o) d += err[r * kTargets + o] * w2[j * kTargets + o];
        a += (k < kFeatures ? x[r * kFeatures + k] : 1.0f) * d * (1 - q * q);
    }
    g[i] = a / n;
}

__global__ void sgd(float *w, const float *g, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate * g[i];
}

class Regressor {
public:
    static const int n1 = (kFeatures + 1) * kHidden, n2 = (kHidden + 1) * kTargets;
    explicit Regressor(Random &r)
    {
        init(w1, g1, n1, 0.3f, r);
        init(w2, g2, n2, 0.3f, r);
        cudaMalloc(&h, 512 * kHidden * sizeof(float));
        cudaMalloc(&err, 512 * kTargets * sizeof(float));
        DDP_PARAMETER(w1, n1, DDP_FLOAT32); DDP_PARAMETER(w2, n2, DDP_FLOAT32);
        DDP_GRADIENT(g1, n1, DDP_FLOAT32); DDP_GRADIENT(g2, n2, DDP_FLOAT32);
    }
    float error(const Dataset &d, size_t from, size_t n)
    {
        predict<<<(n + 31) / 32, 32>>>(w1, w2, d.dx + from * kFeatures, d.dt + from * kTargets, h, err, (int)n);
        std::vector<float> e(n * kTargets);
        cudaMemcpy(e.data(), err, e.size() * sizeof(float), cudaMemcpyDeviceToHost);
        float s = 0;
        for (float v : e) s += v * v;
        return s / n;
    }
    void gradients(const Dataset &d, size_t from, size_t n)
    {
        const float *x = d.dx + from * kFeatures;
        predict<<<(n + 31) / 32, 32>>>(w1, w2, x, d.dt + from * kTargets, h, err, (int)n);
        output_gradient<<<1, n2>>>(h, err, g2, (int)n);
        hidden_gradient<<<(n1 + 63) / 64, 64>>>(x, h, err, w2, g1, (int)n);
    }
    void update(float rate)
    {
        sgd<<<(n1 + 63) / 64, 64>>>(w1, g1, n1, rate);
        sgd<<<1, n2>>>(w2, g2, n2, rate);
    }
    void save(FILE *f) const
    {
        std::vector<float> v(n1 + n2);
        cudaMemcpy(v.data(), w1, n1 * sizeof(float), cudaMemcpyDeviceToHost);
        cudaMemcpy(v.data() + n1, w2, n2 * sizeof(float), cudaMemcpyDeviceToHost);
        for (float e : v) fprintf(f, "%.9g\n", e);
    }
private:
    static void init(float *&w, float *&g, int n, float scale, Random &r)
    {
        std::vector<float> v(n);
        for (float &e : v) e = scale * r();
        cudaMalloc(&w, n * sizeof(float)); cudaMalloc(&g, n * sizeof(float));
        cudaMemcpy(w, v.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    }
    float *w1, *g1, *w2, *g2, *h, *err;
};

} // namespace kiln

int main(int argc, char **argv)
{
    using namespace kiln;
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Random r;
    Dataset train(960, r), held(120, r);
    Regressor net(r);
    const int batch = 32;
    float rate = 0.15f, before = 1e30f;
    for (int s = 0; s < steps; ++s) {
        size_t first, count, vfirst, vcount;
        DDP_SHARD(batch, &first, &count);
        net.gradients(train, s * batch % train.n + first, count);
        DDP_STEP(0);
        net.update(rate);
        if (s % 3 == 2) {
            DDP_SHARD(held.n, &vfirst, &vcount);
            float now = net.error(held, vfirst, vcount);
            rate *= now < before ? 1.2f : 0.6f;
            before = now;
            if (s % 12 == 11) printf("step %d: held-out error %.4f, rate %.3f\n", s, now, rate);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        net.save(f);
        fclose(f);
    }
    return 0;
}
