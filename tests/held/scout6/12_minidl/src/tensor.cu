#include "minidl/tensor.h"
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>

namespace minidl {

void cuda_check(int code, const char* file, int line)
{
    if (code != cudaSuccess) {
        std::fprintf(stderr, "minidl: %s:%d: %s\n", file, line, cudaGetErrorString(static_cast<cudaError_t>(code)));
        std::exit(2);
    }
}

Tensor::Tensor(int rows, int cols) : rows_(rows), cols_(cols)
{
    float* p = nullptr;
    MINIDL_CHECK(cudaMalloc(reinterpret_cast<void**>(&p), sizeof(float) * numel()));
    storage_ = std::shared_ptr<float>(p, [](float* q) { cudaFree(q); });
    zero_();
}

Tensor Tensor::from_host(const std::vector<float>& values, int rows, int cols)
{
    Tensor t(rows, cols);
    t.copy_from(values.data());
    return t;
}

void Tensor::zero_() { MINIDL_CHECK(cudaMemset(data(), 0, sizeof(float) * numel())); }

void Tensor::copy_from(const float* host)
{
    MINIDL_CHECK(cudaMemcpy(data(), host, sizeof(float) * numel(), cudaMemcpyHostToDevice));
}

std::vector<float> Tensor::to_host() const
{
    std::vector<float> h(numel());
    MINIDL_CHECK(cudaMemcpy(h.data(), data(), sizeof(float) * numel(), cudaMemcpyDeviceToHost));
    return h;
}

}  // namespace minidl
