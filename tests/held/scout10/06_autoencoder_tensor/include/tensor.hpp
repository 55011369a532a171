#ifndef AE_TENSOR_HPP
#define AE_TENSOR_HPP

#include <cuda_runtime.h>

#include <memory>
#include <stdexcept>
#include <vector>

namespace ae {

inline void check(cudaError_t e)
{
    if (e != cudaSuccess)
        throw std::runtime_error(cudaGetErrorString(e));
}

template <typename T> class Tensor {
  public:
    Tensor() : rows_(0), cols_(0) {}
    Tensor(int rows, int cols) : rows_(rows), cols_(cols)
    {
        T *raw = nullptr;
        check(cudaMalloc(&raw, sizeof(T) * rows * cols));
        check(cudaMemset(raw, 0, sizeof(T) * rows * cols));
        mem_ = std::shared_ptr<T>(raw, [](T *p) { cudaFree(p); });
    }
    static Tensor from(int rows, int cols, const std::vector<T> &host)
    {
        Tensor t(rows, cols);
        check(cudaMemcpy(t.data(), host.data(), sizeof(T) * host.size(), cudaMemcpyHostToDevice));
        return t;
    }
    std::vector<T> to_host() const
    {
        std::vector<T> h(size());
        check(cudaMemcpy(h.data(), data(), sizeof(T) * size(), cudaMemcpyDeviceToHost));
        return h;
    }
    T *data() const { return mem_.get(); }
    int rows() const { return rows_; }
    int cols() const { return cols_; }
    int size() const { return rows_ * cols_; }

  private:
    std::shared_ptr<T> mem_;
    int rows_, cols_;
};

// out = a * b, with either operand transposed
template <typename T> void matmul(const Tensor<T> &a, bool ta, const Tensor<T> &b, bool tb, Tensor<T> &out);
template <typename T> void add_row(Tensor<T> &x, const Tensor<T> &bias);
template <typename T> void sum_rows(const Tensor<T> &x, Tensor<T> &out);
template <typename T> void sigmoid(Tensor<T> &x);
template <typename T> void sigmoid_backward(Tensor<T> &grad, const Tensor<T> &y);
template <typename T> void gather_rows(const Tensor<T> &all, const int *index, Tensor<T> &out);
template <typename T> void mse(const Tensor<T> &y, const Tensor<T> &target, Tensor<T> &grad, Tensor<T> &loss);
template <typename T> void rmsprop(Tensor<T> &w, const Tensor<T> &g, Tensor<T> &s, T lr, T decay);

} // namespace ae
#endif
