// Element types: how a layer loads, stores and names them. Arithmetic is always float.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_CHECK(call)                                                              \
  do {                                                                                \
    cudaError_t status_ = (call);                                                     \
    if (status_ != cudaSuccess) {                                                     \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status_)); \
      std::exit(1);                                                                   \
    }                                                                                 \
  } while (0)

namespace tinyconv {

template <typename T>
struct Element;

template <>
struct Element<float> {
  static constexpr const char* name = "float";
  static constexpr float loss_scale = 1.0f;
  __host__ __device__ static float load(float v) { return v; }
  __host__ __device__ static float store(float v) { return v; }
};

template <>
struct Element<__half> {
  static constexpr const char* name = "half";
  // Keeps small gradients out of half's subnormal range.
  static constexpr float loss_scale = 256.0f;
  __host__ __device__ static float load(__half v) { return __half2float(v); }
  __host__ __device__ static __half store(float v) { return __float2half_rn(v); }
};

template <typename T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t n = 0) { allocate(n); }
  ~DeviceBuffer() { cudaFree(ptr_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void allocate(size_t n) {
    cudaFree(ptr_);
    ptr_ = nullptr;
    size_ = n;
    if (n == 0) return;
    CUDA_CHECK(cudaMalloc((void**)&ptr_, n * sizeof(T)));
    CUDA_CHECK(cudaMemset(ptr_, 0, n * sizeof(T)));
  }
  void upload(const std::vector<T>& v) {
    CUDA_CHECK(cudaMemcpy(ptr_, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> download() const {
    std::vector<T> v(size_);
    CUDA_CHECK(cudaMemcpy(v.data(), ptr_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
  }
  T* get() { return ptr_; }
  const T* get() const { return ptr_; }
  size_t size() const { return size_; }

 private:
  T* ptr_ = nullptr;
  size_t size_ = 0;
};

inline unsigned blocks_for(int n, int threads) { return (n + threads - 1) / threads; }

}  // namespace tinyconv
