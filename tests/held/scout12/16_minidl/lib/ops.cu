#include "minidl/minidl.h"
#include <cuda_runtime.h>
#include <stdexcept>

namespace minidl {

Buffer::Buffer(size_t n) : n_(n)
{
    if (cudaMalloc(&p_, n * sizeof(float)) != cudaSuccess) throw std::bad_alloc();
    zero();
}
Buffer::~Buffer() { cudaFree(p_); }
void Buffer::zero() { cudaMemset(p_, 0, n_ * sizeof(float)); }
void Buffer::from_host(const float *h, size_t n) { cudaMemcpy(p_, h, n * sizeof(float), cudaMemcpyHostToDevice); }
void Buffer::to_host(float *h, size_t n) const { cudaMemcpy(h, p_, n * sizeof(float), cudaMemcpyDeviceToHost); }

namespace {
template <class F> __global__ void for_each_index(size_t n, F f)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) f(i);
}
struct MatMul {
    const float *a, *b; float *c; size_t m, k, n; bool ta, tb;
    __device__ void operator()(size_t i) const
    {
        size_t r = i / n, s = i % n;
        float v = 0;
        for (size_t q = 0; q < k; ++q) v += (ta ? a[q * m + r] : a[r * k + q]) * (tb ? b[s * k + q] : b[q * n + s]);
        c[i] = v;
    }
};
struct AddRow { float *y; const float *row; size_t d; __device__ void operator()(size_t i) const { y[i] += row[i % d]; } };
struct SumRows {
    const float *y; float *row; size_t n, d;
    __device__ void operator()(size_t j) const
    {
        float s = 0;
        for (size_t i = 0; i < n; ++i) s += y[i * d + j];
        row[j] = s;
    }
};
struct Relu { const float *x; float *y; __device__ void operator()(size_t i) const { y[i] = x[i] > 0 ? x[i] : 0.f; } };
struct ReluGrad {
    const float *y, *dy; float *dx;
    __device__ void operator()(size_t i) const { dx[i] = y[i] > 0 ? dy[i] : 0.f; }
};
struct Xent {
    const float *z, *t; float *dz, *loss; size_t d;
    __device__ void operator()(size_t i) const
    {
        float m = -1e30f, s = 0, l = 0;
        for (size_t j = 0; j < d; ++j) m = fmaxf(m, z[i * d + j]);
        for (size_t j = 0; j < d; ++j) s += expf(z[i * d + j] - m);
        for (size_t j = 0; j < d; ++j) {
            float p = expf(z[i * d + j] - m) / s;
            dz[i * d + j] = p - t[i * d + j];
            l -= t[i * d + j] * logf(p + 1e-9f);
        }
        loss[i] = l;
    }
};
struct Sgd {
    float *w; const float *g; float *v; float lr, mu, scale;
    __device__ void operator()(size_t i) const
    {
        v[i] = mu * v[i] + scale * g[i];
        w[i] -= lr * v[i];
    }
};
template <class F> void launch(size_t n, F f) { for_each_index<<<(unsigned)((n + 127) / 128), 128>>>(n, f); }
}

namespace ops {
void matmul(const float *a, const float *b, float *c, size_t m, size_t k, size_t n, bool ta, bool tb)
{
    launch(m * n, MatMul{ a, b, c, m, k, n, ta, tb });
}
void add_row(float *y, const float *row, size_t n, size_t d) { launch(n * d, AddRow{ y, row, d }); }
void sum_rows(const float *y, float *row, size_t n, size_t d) { launch(d, SumRows{ y, row, n, d }); }
void relu(const float *x, float *y, size_t n) { launch(n, Relu{ x, y }); }
void relu_grad(const float *y, const float *dy, float *dx, size_t n) { launch(n, ReluGrad{ y, dy, dx }); }
void softmax_cross_entropy(const float *z, const float *t, float *dz, float *loss, size_t n, size_t d)
{
    launch(n, Xent{ z, t, dz, loss, d });
}
void sgd(float *w, const float *g, float *v, size_t n, float lr, float mu, float scale) { launch(n, Sgd{ w, g, v, lr, mu, scale }); }
}
}
