#pragma once
#include <cuda_runtime.h>
#include <memory>
#include <new>
#include <vector>

struct DeviceDelete {
    void operator()(void *p) const { cudaFree(p); }
};

// Owns device memory for `size` elements of T.
template <typename T> class DeviceArray {
public:
    DeviceArray() = default;
    explicit DeviceArray(size_t size) : size_(size)
    {
        void *p = nullptr;
        if (cudaMalloc(&p, size * sizeof(T)) != cudaSuccess)
            throw std::bad_alloc();
        memory_.reset(static_cast<T *>(p));
        cudaMemset(p, 0, size * sizeof(T));
    }
    explicit DeviceArray(const std::vector<T> &host) : DeviceArray(host.size())
    {
        cudaMemcpy(get(), host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice);
    }
    T *get() const { return memory_.get(); }
    size_t size() const { return size_; }
    std::vector<T> host() const
    {
        std::vector<T> h(size_);
        cudaMemcpy(h.data(), get(), size_ * sizeof(T), cudaMemcpyDeviceToHost);
        return h;
    }

private:
    size_t size_ = 0;
    std::unique_ptr<T, DeviceDelete> memory_;
};
