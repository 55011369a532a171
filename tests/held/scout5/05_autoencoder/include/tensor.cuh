#pragma once
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

inline void throw_on_error(cudaError_t status, const char *where)
{
    if (status != cudaSuccess)
        throw std::runtime_error(std::string(where) + ": " + cudaGetErrorString(status));
}

// A 2-d matrix on the device; owns its memory.
template <typename T>
class Tensor {
public:
    Tensor() = default;
    Tensor(int rows, int cols) : rows_(rows), cols_(cols)
    {
        throw_on_error(cudaMalloc(&data_, bytes()), "Tensor");
        throw_on_error(cudaMemset(data_, 0, bytes()), "Tensor");
    }
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;
    Tensor(Tensor &&o) noexcept { swap(o); }
    Tensor &operator=(Tensor &&o) noexcept
    {
        swap(o);
        return *this;
    }
    ~Tensor() { cudaFree(data_); }

    void upload(const T *host) { throw_on_error(cudaMemcpy(data_, host, bytes(), cudaMemcpyHostToDevice), "upload"); }
    void upload(const std::vector<T> &host) { upload(host.data()); }
    std::vector<T> download() const
    {
        std::vector<T> host(size());
        throw_on_error(cudaMemcpy(host.data(), data_, bytes(), cudaMemcpyDeviceToHost), "download");
        return host;
    }

    T *data() { return data_; }
    const T *data() const { return data_; }
    int rows() const { return rows_; }
    int cols() const { return cols_; }
    size_t size() const { return static_cast<size_t>(rows_) * cols_; }
    size_t bytes() const { return size() * sizeof(T); }

private:
    void swap(Tensor &o) noexcept
    {
        std::swap(data_, o.data_);
        std::swap(rows_, o.rows_);
        std::swap(cols_, o.cols_);
    }
    T *data_ = nullptr;
    int rows_ = 0, cols_ = 0;
};

struct Param {
    Tensor<float> value, grad, m, v;
    Param() = default;
    Param(int r, int c) : value(r, c), grad(r, c), m(r, c), v(r, c) {}
};
