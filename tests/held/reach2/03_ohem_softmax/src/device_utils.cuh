#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_CHECK(expr)                                                         \
  do {                                                                           \
    cudaError_t err__ = (expr);                                                  \
    if (err__ != cudaSuccess) {                                                  \
      std::fprintf(stderr, "%s failed at %s:%d: %s\n", #expr, __FILE__, __LINE__, \
                   cudaGetErrorString(err__));                                   \
      std::exit(EXIT_FAILURE);                                                   \
    }                                                                            \
  } while (0)

#define CUBLAS_CHECK(expr)                                                                  \
  do {                                                                                      \
    cublasStatus_t st__ = (expr);                                                           \
    if (st__ != CUBLAS_STATUS_SUCCESS) {                                                    \
      std::fprintf(stderr, "cuBLAS error %d at %s:%d\n", (int)st__, __FILE__, __LINE__);    \
      std::exit(EXIT_FAILURE);                                                              \
    }                                                                                       \
  } while (0)

template <typename T>
struct DeviceArray {
  T* ptr = nullptr;
  size_t count = 0;

  explicit DeviceArray(size_t n) : count(n) {
    CUDA_CHECK(cudaMalloc(&ptr, n * sizeof(T)));
    CUDA_CHECK(cudaMemset(ptr, 0, n * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& v) : DeviceArray(v.size()) {
    CUDA_CHECK(cudaMemcpy(ptr, v.data(), count * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(ptr); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  operator T*() const { return ptr; }
  std::vector<T> to_host() const {
    std::vector<T> v(count);
    CUDA_CHECK(cudaMemcpy(v.data(), ptr, count * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
  }
  T at(size_t i) const {
    T v;
    CUDA_CHECK(cudaMemcpy(&v, ptr + i, sizeof(T), cudaMemcpyDeviceToHost));
    return v;
  }
};

// Grows to the largest temporary storage that any CUB call asks for.
class CubWorkspace {
 public:
  ~CubWorkspace() { cudaFree(storage_); }

  // `call` is a CUB device-wide algorithm of (void* storage, size_t& bytes).
  template <typename Call>
  void run(Call&& call) {
    size_t bytes = 0;
    CUDA_CHECK(call(nullptr, bytes));
    if (bytes > capacity_ || storage_ == nullptr) {
      CUDA_CHECK(cudaFree(storage_));
      capacity_ = bytes > 256 ? bytes : 256;
      CUDA_CHECK(cudaMalloc(&storage_, capacity_));
    }
    CUDA_CHECK(call(storage_, bytes));
  }

 private:
  void* storage_ = nullptr;
  size_t capacity_ = 0;
};
