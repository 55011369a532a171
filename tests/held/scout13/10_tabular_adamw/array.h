#pragma once
#include <cuda_runtime.h>
#include <memory>
#include <stdexcept>
#include <vector>

template <typename T>
class Array {
public:
    Array() = default;
    explicit Array(size_t n) : n_(n)
    {
        T *p = nullptr;
        if (cudaMalloc(reinterpret_cast<void **>(&p), n * sizeof(T)) != cudaSuccess) throw std::runtime_error("out of memory");
        cudaMemset(p, 0, n * sizeof(T));
        mem_ = std::shared_ptr<T>(p, [](T *q) { cudaFree(q); });
    }
    explicit Array(const std::vector<T> &h) : Array(h.size()) { assign(h); }
    void assign(const std::vector<T> &h)
    {
        cudaMemcpy(mem_.get(), h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice);
    }
    std::vector<T> host() const
    {
        std::vector<T> h(n_);
        cudaMemcpy(h.data(), mem_.get(), n_ * sizeof(T), cudaMemcpyDeviceToHost);
        return h;
    }
    T *get() const { return mem_.get(); }
    size_t size() const { return n_; }

private:
    std::shared_ptr<T> mem_;
    size_t n_ = 0;
};
