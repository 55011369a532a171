#pragma once
#include <cuda_runtime.h>
#include <cstddef>
#include <utility>
#include <vector>

template <typename T> class DeviceBuffer {
public:
    DeviceBuffer() = default;
    explicit DeviceBuffer(size_t n) : n_(n)
    {
        cudaMalloc(reinterpret_cast<void **>(&p_), n * sizeof(T));
        cudaMemset(p_, 0, n * sizeof(T));
    }
    DeviceBuffer(const DeviceBuffer &) = delete;
    DeviceBuffer &operator=(const DeviceBuffer &) = delete;
    DeviceBuffer(DeviceBuffer &&o) noexcept : p_(std::exchange(o.p_, nullptr)), n_(std::exchange(o.n_, 0)) {}
    DeviceBuffer &operator=(DeviceBuffer &&o) noexcept
    {
        std::swap(p_, o.p_);
        std::swap(n_, o.n_);
        return *this;
    }
    ~DeviceBuffer() { cudaFree(p_); }

    T *data() { return p_; }
    const T *data() const { return p_; }
    size_t size() const { return n_; }
    void upload(const std::vector<T> &h) { cudaMemcpy(p_, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice); }
    std::vector<T> download() const
    {
        std::vector<T> h(n_);
        cudaMemcpy(h.data(), p_, n_ * sizeof(T), cudaMemcpyDeviceToHost);
        return h;
    }

private:
    T *p_ = nullptr;
    size_t n_ = 0;
};
