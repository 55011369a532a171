#ifndef DEVICE_BUFFER_HPP
#define DEVICE_BUFFER_HPP

#include <cstdlib>
#include <iostream>
#include <vector>
#include <cuda_runtime.h>

#define cudaCheck(err) (cudaCheckImpl((err), __FILE__, __LINE__))
inline void cudaCheckImpl(cudaError_t err, const char* file, int line)
{
    if (err != cudaSuccess) {
        std::cerr << file << ":" << line << " " << cudaGetErrorString(err) << std::endl;
        std::exit(1);
    }
}

// Owns n elements of device memory
template <typename T>
class DeviceBuffer {
public:
    explicit DeviceBuffer(size_t n) : size_(n)
    {
        cudaCheck(cudaMalloc(reinterpret_cast<void**>(&ptr_), n * sizeof(T)));
        cudaCheck(cudaMemset(ptr_, 0, n * sizeof(T)));
    }
    ~DeviceBuffer() { cudaFree(ptr_); }
    DeviceBuffer(const DeviceBuffer&) = delete;
    DeviceBuffer& operator=(const DeviceBuffer&) = delete;

    void upload(const std::vector<T>& v) { cudaCheck(cudaMemcpy(ptr_, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice)); }
    std::vector<T> download() const
    {
        std::vector<T> v(size_);
        cudaCheck(cudaMemcpy(v.data(), ptr_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
        return v;
    }
    T* get() { return ptr_; }
    size_t size() const { return size_; }

private:
    T* ptr_ = nullptr;
    size_t size_;
};

#endif
