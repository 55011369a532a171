#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace mlpkit {
inline void check(cudaError_t code, const char* file, int line) {
  if (code != cudaSuccess)
    throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " +
                             cudaGetErrorString(code));
}
constexpr int div_up(int a, int b) { return (a + b - 1) / b; }
}  // namespace mlpkit

#define MLPKIT_CHECK(expr) ::mlpkit::check((expr), __FILE__, __LINE__)
#define MLPKIT_CHECK_LAUNCH() MLPKIT_CHECK(cudaGetLastError())
