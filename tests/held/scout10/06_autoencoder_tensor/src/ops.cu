#include "tensor.hpp"

namespace ae {

namespace {
constexpr int kThreads = 128;
inline int blocks(int n) { return (n + kThreads - 1) / kThreads; }

template <typename T>
__global__ void matmul_kernel(const T *a, bool ta, int lda, const T *b, bool tb, int ldb, T *c, int m, int n, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m * n)
        return;
    int r = i / n, col = i % n;
    T s = 0;
    for (int x = 0; x < k; ++x)
        s += (ta ? a[x * lda + r] : a[r * lda + x]) * (tb ? b[col * ldb + x] : b[x * ldb + col]);
    c[i] = s;
}

template <typename T> __global__ void add_row_kernel(T *x, const T *bias, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols)
        x[i] += bias[i % cols];
}

template <typename T> __global__ void sum_rows_kernel(const T *x, T *out, int rows, int cols)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= cols)
        return;
    T s = 0;
    for (int r = 0; r < rows; ++r)
        s += x[r * cols + j];
    out[j] = s;
}

template <typename T> __global__ void sigmoid_kernel(T *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = T(1) / (T(1) + exp(-x[i]));
}

template <typename T> __global__ void sigmoid_backward_kernel(T *g, const T *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        g[i] *= y[i] * (T(1) - y[i]);
}

template <typename T> __global__ void gather_kernel(const T *all, const int *index, T *out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols)
        out[i] = all[index[i / cols] * cols + i % cols];
}

template <typename T>
__global__ void mse_kernel(const T *y, const T *t, T *g, T *loss, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    T s = 0;
    for (int j = 0; j < cols; ++j) {
        T d = y[r * cols + j] - t[r * cols + j];
        g[r * cols + j] = T(2) * d / rows;
        s += d * d;
    }
    loss[r] = s;
}

template <typename T> __global__ void rmsprop_kernel(T *w, const T *g, T *s, T lr, T decay, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    s[i] = decay * s[i] + (T(1) - decay) * g[i] * g[i];
    w[i] -= lr * g[i] / (sqrt(s[i]) + T(1e-7));
}
} // namespace

template <typename T> void matmul(const Tensor<T> &a, bool ta, const Tensor<T> &b, bool tb, Tensor<T> &out)
{
    int m = ta ? a.cols() : a.rows(), k = ta ? a.rows() : a.cols(), n = tb ? b.rows() : b.cols();
    if (out.rows() != m || out.cols() != n || (tb ? b.cols() : b.rows()) != k)
        throw std::invalid_argument("matmul: shapes");
    matmul_kernel<T><<<blocks(m * n), kThreads>>>(a.data(), ta, a.cols(), b.data(), tb, b.cols(), out.data(), m, n, k);
}
template <typename T> void add_row(Tensor<T> &x, const Tensor<T> &bias)
{
    add_row_kernel<T><<<blocks(x.size()), kThreads>>>(x.data(), bias.data(), x.rows(), x.cols());
}
template <typename T> void sum_rows(const Tensor<T> &x, Tensor<T> &out)
{
    sum_rows_kernel<T><<<blocks(x.cols()), kThreads>>>(x.data(), out.data(), x.rows(), x.cols());
}
template <typename T> void sigmoid(Tensor<T> &x) { sigmoid_kernel<T><<<blocks(x.size()), kThreads>>>(x.data(), x.size()); }
template <typename T> void sigmoid_backward(Tensor<T> &g, const Tensor<T> &y)
{
    sigmoid_backward_kernel<T><<<blocks(y.size()), kThreads>>>(g.data(), y.data(), y.size());
}
template <typename T> void gather_rows(const Tensor<T> &all, const int *index, Tensor<T> &out)
{
    gather_kernel<T><<<blocks(out.size()), kThreads>>>(all.data(), index, out.data(), out.rows(), out.cols());
}
template <typename T> void mse(const Tensor<T> &y, const Tensor<T> &t, Tensor<T> &g, Tensor<T> &loss)
{
    mse_kernel<T><<<blocks(y.rows()), kThreads>>>(y.data(), t.data(), g.data(), loss.data(), y.rows(), y.cols());
}
template <typename T> void rmsprop(Tensor<T> &w, const Tensor<T> &g, Tensor<T> &s, T lr, T decay)
{
    rmsprop_kernel<T><<<blocks(w.size()), kThreads>>>(w.data(), g.data(), s.data(), lr, decay, w.size());
}

#define INSTANTIATE(T)                                                                       \
    template void matmul<T>(const Tensor<T> &, bool, const Tensor<T> &, bool, Tensor<T> &); \
    template void add_row<T>(Tensor<T> &, const Tensor<T> &);                               \
    template void sum_rows<T>(const Tensor<T> &, Tensor<T> &);                              \
    template void sigmoid<T>(Tensor<T> &);                                                  \
    template void sigmoid_backward<T>(Tensor<T> &, const Tensor<T> &);                      \
    template void gather_rows<T>(const Tensor<T> &, const int *, Tensor<T> &);              \
    template void mse<T>(const Tensor<T> &, const Tensor<T> &, Tensor<T> &, Tensor<T> &);   \
    template void rmsprop<T>(Tensor<T> &, const Tensor<T> &, Tensor<T> &, T, T);

INSTANTIATE(float)
INSTANTIATE(double)

} // namespace ae
