// Every step allocates its scratch memory, with the size of its share, and frees it.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

struct Free { void operator()(float *p) const { cudaFree(p); } };
using Buffer = std::unique_ptr<float, Free>;
static Buffer make(size_t n) { float *p; cudaMalloc(&p, n * sizeof(float)); return Buffer(p); }

enum : int { F = 8, U = 12, BATCH = 24, COUNT = 240 };

__global__ void hidden(const float *x, const float *w, float *h)
{
    float s = 0;
    for (int f = 0; f < F; ++f) s += x[blockIdx.x * F + f] * w[f * U + threadIdx.x];
    h[blockIdx.x * U + threadIdx.x] = tanhf(s);
}
__global__ void error(const float *h, const float *v, const float *y, float *e)
{
    float s = -y[threadIdx.x];
    for (int u = 0; u < U; ++u) s += h[threadIdx.x * U + u] * v[u];
    e[threadIdx.x] = s;
}
__global__ void delta(const float *h, const float *v, const float *e, float *d)
{
    int i = blockIdx.x * U + threadIdx.x;
    d[i] = e[blockIdx.x] * v[threadIdx.x] * (1 - h[i] * h[i]);
}
__global__ void outer(const float *a, const float *b, float *g, int n)
{
    float s = 0;
    for (int r = 0; r < n; ++r) s += a[r * gridDim.x + blockIdx.x] * b[r * blockDim.x + threadIdx.x];
    g[blockIdx.x * blockDim.x + threadIdx.x] = 2 * s / n;
}
__global__ void sgd(float *w, const float *g) { int i = blockIdx.x * blockDim.x + threadIdx.x; w[i] -= 0.1f * g[i]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::mt19937 rng(44);
    std::uniform_real_distribution<float> u(-1, 1);
    std::vector<float> x(COUNT * F), y(COUNT), w(F * U), v(U);
    for (int i = 0; i < COUNT; ++i) { for (int f = 0; f < F; ++f) x[i * F + f] = u(rng); y[i] = x[i * F] * 1.5f - x[i * F + 1]; }
    for (auto &a : w) a = u(rng);
    for (auto &a : v) a = u(rng) * 0.3f;
    Buffer dx = make(x.size()), dy = make(y.size()), dw = make(w.size()), dv = make(v.size()), gw = make(w.size()), gv = make(v.size());
    cudaMemcpy(dx.get(), x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy.get(), y.data(), y.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dw.get(), w.data(), w.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dv.get(), v.data(), v.size() * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(dw.get(), F * U, DDP_FLOAT32);
    DDP_PARAMETER(dv.get(), U, DDP_FLOAT32);
    DDP_GRADIENT(gw.get(), F * U, DDP_FLOAT32);
    DDP_GRADIENT(gv.get(), U, DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        size_t first, n;
        DDP_SHARD(BATCH, &first, &n);
        const float *bx = dx.get() + (s * BATCH % COUNT + first) * F, *by = dy.get() + s * BATCH % COUNT + first;
        Buffer h = make(n * U), d = make(n * U), e = make(n);
        hidden<<<n, U>>>(bx, dw.get(), h.get());
        error<<<1, n>>>(h.get(), dv.get(), by, e.get());
        delta<<<n, U>>>(h.get(), dv.get(), e.get(), d.get());
        outer<<<1, U>>>(e.get(), h.get(), gv.get(), n);
        outer<<<F, U>>>(bx, d.get(), gw.get(), n);
        DDP_STEP(0);
        sgd<<<F, U>>>(dw.get(), gw.get());
        sgd<<<1, U>>>(dv.get(), gv.get());
        if (s % 10 == 9) {
            std::vector<float> he(n);
            cudaMemcpy(he.data(), e.get(), n * 4, cudaMemcpyDeviceToHost);
            float l = 0;
            for (float q : he) l += q * q / n;
            DDP_MEAN(&l);
            if (DDP_RANK() == 0) printf("step %d loss %.4f\n", s + 1, l);
        }
    }
    return 0;
}
