#pragma once
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <utility>
#include <vector>

inline void must(cudaError_t e, const char *what)
{
    if (e == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
    std::exit(1);
}

// Owning float array on the device. Movable only.
class DeviceTensor {
public:
    explicit DeviceTensor(std::size_t n) : n_(n)
    {
        must(cudaMalloc(&ptr_, n * sizeof(float)), "cudaMalloc");
        must(cudaMemset(ptr_, 0, n * sizeof(float)), "cudaMemset");
    }
    ~DeviceTensor() { if (ptr_) cudaFree(ptr_); }
    DeviceTensor(DeviceTensor &&o) noexcept : ptr_(std::exchange(o.ptr_, nullptr)), n_(std::exchange(o.n_, 0)) {}
    DeviceTensor(const DeviceTensor &) = delete;

    void upload(const float *host, std::size_t n)
    {
        must(cudaMemcpy(ptr_, host, n * sizeof(float), cudaMemcpyHostToDevice), "upload");
    }
    std::vector<float> download(std::size_t n) const
    {
        std::vector<float> host(n);
        must(cudaMemcpy(host.data(), ptr_, n * sizeof(float), cudaMemcpyDeviceToHost), "download");
        return host;
    }
    float *data() { return ptr_; }
    const float *data() const { return ptr_; }
    std::size_t size() const { return n_; }

private:
    float *ptr_ = nullptr;
    std::size_t n_ = 0;
};

struct Parameter {
    DeviceTensor value, grad;
    DeviceTensor m, v; // Adam
    explicit Parameter(std::size_t n) : value(n), grad(n), m(n), v(n) {}
};
