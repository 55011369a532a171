#pragma once
#include <cuda_runtime.h>
#include <stdexcept>
#define NN_CHECK(expr)                                                  \
    do {                                                                \
        cudaError_t nn_err = (expr);                                    \
        if (nn_err != cudaSuccess)                                      \
            throw std::runtime_error(cudaGetErrorString(nn_err));       \
    } while (0)
namespace nn {
inline unsigned grid(std::size_t n, unsigned block = 128) { return static_cast<unsigned>((n + block - 1) / block); }
}
