#include "encoder.h"
#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

#define TRY_BLAS(expr) \
    if (cublasStatus_t st = (expr); st != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("cuBLAS: " #expr)

namespace {

__global__ void tanh_inplace(float *a, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) a[i] = tanhf(a[i]);
}

__global__ void tanh_gradient(float *d, const float *a, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) d[i] *= 1.f - a[i] * a[i];
}

// RMSprop without momentum
__global__ void rms_step(float *w, const float *g, float *m, int n, float rate)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        m[i] = 0.95f * m[i] + 0.05f * g[i] * g[i];
        w[i] -= rate * g[i] / (sqrtf(m[i]) + 1e-4f);
    }
}

} // namespace

float *Encoder::take(std::size_t n)
{
    float *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(float)) != cudaSuccess) throw std::bad_alloc();
    cudaMemset(p, 0, n * sizeof(float));
    owned_.at(owned_count_++) = p;
    return p;
}

Encoder::Encoder(int in, int hidden, int out, int rows) : in_(in), hidden_(hidden), out_(out), rows_(rows)
{
    TRY_BLAS(cublasCreate(&blas_));
    w1_ = take(hidden * in);
    w2_ = take(out * hidden);
    gw1_ = take(hidden * in);
    gw2_ = take(out * hidden);
    m1_ = take(hidden * in);
    m2_ = take(out * hidden);
    std::mt19937 rng(9);
    auto randomise = [&](float *w, int n, int fan) {
        std::normal_distribution<float> d(0.f, 1.f / std::sqrt((float)fan));
        std::vector<float> h(n);
        for (float &v : h) v = d(rng);
        cudaMemcpy(w, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    };
    randomise(w1_, hidden * in, in);
    randomise(w2_, out * hidden, 8 * hidden);
}

Encoder::~Encoder()
{
    for (int i = 0; i < owned_count_; ++i) cudaFree(owned_[i]);
    cublasDestroy(blas_);
}

Encoder::Branch Encoder::make_branch()
{
    return {take(rows_ * in_), take(rows_ * hidden_), take(rows_ * out_), take(rows_ * hidden_), take(rows_ * out_)};
}

void Encoder::forward(const Branch &b)
{
    const float one = 1.f, zero = 0.f;
    TRY_BLAS(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, hidden_, rows_, in_, &one, w1_, hidden_, b.input, in_, &zero, b.hidden, hidden_));
    tanh_inplace<<<4, 64>>>(b.hidden, rows_ * hidden_);
    TRY_BLAS(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, out_, rows_, hidden_, &one, w2_, out_, b.hidden, hidden_, &zero, b.embedding, out_));
}

void Encoder::backward(const Branch &b, bool first)
{
    const float one = 1.f, zero = 0.f, keep = first ? 0.f : 1.f;
    TRY_BLAS(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_T, out_, hidden_, rows_, &one, b.dembedding, out_, b.hidden, hidden_, &keep, gw2_, out_));
    TRY_BLAS(cublasSgemm(blas_, CUBLAS_OP_T, CUBLAS_OP_N, hidden_, rows_, out_, &one, w2_, out_, b.dembedding, out_, &zero, b.dhidden, hidden_));
    tanh_gradient<<<4, 64>>>(b.dhidden, b.hidden, rows_ * hidden_);
    TRY_BLAS(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_T, hidden_, in_, rows_, &one, b.dhidden, hidden_, b.input, in_, &keep, gw1_, hidden_));
}

void Encoder::update(float rate)
{
    rms_step<<<4, 64>>>(w1_, gw1_, m1_, hidden_ * in_, rate);
    rms_step<<<4, 64>>>(w2_, gw2_, m2_, out_ * hidden_, rate);
}
