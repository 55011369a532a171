#include "minidl/nn.h"
#include <cmath>

namespace minidl {

namespace {

// c (m x n) = op(a) op(b) + beta c
template <bool TA, bool TB>
__global__ void gemm(const float* a, const float* b, float* c, int m, int n, int k, float beta)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n)
        return;
    float s = 0;
    for (int i = 0; i < k; ++i)
        s += (TA ? a[i * m + row] : a[row * k + i]) * (TB ? b[col * k + i] : b[i * n + col]);
    c[row * n + col] = s + beta * c[row * n + col];
}

template <bool TA, bool TB>
void matmul(const float* a, const float* b, float* c, int m, int n, int k, float beta)
{
    dim3 block(16, 8), grid(div_up(n, 16), div_up(m, 8));
    gemm<TA, TB><<<grid, block>>>(a, b, c, m, n, k, beta);
}

__global__ void add_row(float* x, const float* b, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols)
        x[i] += b[i % cols];
}

__global__ void column_sum(const float* x, float* out, int rows, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < cols) {
        float s = 0;
        for (int r = 0; r < rows; ++r)
            s += x[r * cols + c];
        out[c] += s;
    }
}

__global__ void leaky(const float* x, const float* g, float* out, float slope, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = (x[i] > 0 ? 1.0f : slope) * (g ? g[i] : x[i]);
}

}  // namespace

Linear::Linear(int in, int out, std::mt19937& rng)
{
    std::uniform_real_distribution<float> d(-1.0f / std::sqrt(float(in)), 1.0f / std::sqrt(float(in)));
    std::vector<float> w(in * out), b(out);
    for (auto& e : w)
        e = d(rng);
    for (auto& e : b)
        e = d(rng);
    weight = std::make_shared<Parameter>(Tensor::from_host(w, in, out));
    bias = std::make_shared<Parameter>(Tensor::from_host(b, 1, out));
}

Tensor Linear::forward(const Tensor& x)
{
    input_ = x;
    Tensor y(x.rows(), weight->value.cols());
    matmul<false, false>(x.data(), weight->value.data(), y.data(), y.rows(), y.cols(), x.cols(), 0.0f);
    add_row<<<div_up(y.numel(), 256), 256>>>(y.data(), bias->value.data(), y.rows(), y.cols());
    return y;
}

Tensor Linear::backward(const Tensor& grad)
{
    matmul<true, false>(input_.data(), grad.data(), weight->grad.data(), input_.cols(), grad.cols(), grad.rows(), 1.0f);
    column_sum<<<div_up(grad.cols(), 64), 64>>>(grad.data(), bias->grad.data(), grad.rows(), grad.cols());
    Tensor dx(input_.rows(), input_.cols());
    matmul<false, true>(grad.data(), weight->value.data(), dx.data(), dx.rows(), dx.cols(), grad.cols(), 0.0f);
    return dx;
}

Tensor LeakyReLU::forward(const Tensor& x)
{
    input_ = x;
    Tensor y(x.rows(), x.cols());
    leaky<<<div_up(x.numel(), 256), 256>>>(x.data(), nullptr, y.data(), slope_, x.numel());
    return y;
}

Tensor LeakyReLU::backward(const Tensor& grad)
{
    Tensor dx(grad.rows(), grad.cols());
    leaky<<<div_up(grad.numel(), 256), 256>>>(input_.data(), grad.data(), dx.data(), slope_, grad.numel());
    return dx;
}

Tensor Sequential::forward(const Tensor& x)
{
    Tensor t = x;
    for (auto& m : modules_)
        t = m->forward(t);
    return t;
}

Tensor Sequential::backward(const Tensor& grad)
{
    Tensor g = grad;
    for (auto it = modules_.rbegin(); it != modules_.rend(); ++it)
        g = (*it)->backward(g);
    return g;
}

std::vector<ParameterPtr> Sequential::parameters()
{
    std::vector<ParameterPtr> all;
    for (auto& m : modules_)
        for (auto& p : m->parameters())
            all.push_back(p);
    return all;
}

}  // namespace minidl
