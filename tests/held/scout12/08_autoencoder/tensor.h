#pragma once
#include <cuda_runtime.h>
#include <memory>
#include <stdexcept>
#include <vector>

template <typename T>
class Tensor {
public:
    Tensor(size_t rows, size_t cols) : rows_(rows), cols_(cols)
    {
        T *p = nullptr;
        if (cudaMalloc(reinterpret_cast<void **>(&p), bytes()) != cudaSuccess) throw std::runtime_error("cudaMalloc");
        data_.reset(p, [](T *q) { cudaFree(q); });
        zero();
    }
    T *data() const { return data_.get(); }
    size_t rows() const { return rows_; }
    size_t cols() const { return cols_; }
    size_t size() const { return rows_ * cols_; }
    size_t bytes() const { return size() * sizeof(T); }
    void zero() { cudaMemset(data(), 0, bytes()); }
    void upload(const std::vector<T> &h) { cudaMemcpy(data(), h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice); }
    std::vector<T> download() const
    {
        std::vector<T> h(size());
        cudaMemcpy(h.data(), data(), bytes(), cudaMemcpyDeviceToHost);
        return h;
    }
private:
    size_t rows_, cols_;
    std::shared_ptr<T> data_;
};
