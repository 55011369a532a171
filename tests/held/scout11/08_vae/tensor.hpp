#pragma once
#include <cuda_runtime.h>
#include <cstddef>
#include <vector>

// Owning device buffer
template <typename T>
class DeviceBuffer {
public:
    explicit DeviceBuffer(std::size_t n) : n_(n)
    {
        cudaMalloc(&p_, n * sizeof(T));
        cudaMemset(p_, 0, n * sizeof(T));
    }
    explicit DeviceBuffer(const std::vector<T> &h) : DeviceBuffer(h.size()) { upload(h); }
    DeviceBuffer(const DeviceBuffer &) = delete;
    DeviceBuffer &operator=(const DeviceBuffer &) = delete;
    ~DeviceBuffer() { cudaFree(p_); }

    void upload(const std::vector<T> &h) { cudaMemcpy(p_, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice); }
    std::vector<T> download() const
    {
        std::vector<T> h(n_);
        cudaMemcpy(h.data(), p_, n_ * sizeof(T), cudaMemcpyDeviceToHost);
        return h;
    }
    T *data() { return p_; }
    const T *data() const { return p_; }
    std::size_t size() const { return n_; }

private:
    T *p_ = nullptr;
    std::size_t n_;
};
