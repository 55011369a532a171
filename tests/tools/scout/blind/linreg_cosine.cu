// Mini-batch linear regression with a cosine learning-rate schedule.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

template <typename T>
__global__ void predict(const T* __restrict__ x, const T* __restrict__ theta, const T* __restrict__ y,
                        T* residual, int n, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T acc = theta[d];
  for (int j = 0; j < d; ++j) acc += x[i * d + j] * theta[j];
  residual[i] = acc - y[i];
}

// One block per coefficient, the last one is the intercept.
template <typename T, int kBlock>
__global__ void gradient(const T* x, const T* residual, T* grad, int n, int d) {
  __shared__ T sh[kBlock];
  int j = blockIdx.x;
  T acc = T(0);
  for (int i = threadIdx.x; i < n; i += kBlock) acc += residual[i] * (j < d ? x[i * d + j] : T(1));
  sh[threadIdx.x] = acc;
  __syncthreads();
  for (int s = kBlock / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) sh[threadIdx.x] += sh[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) grad[j] = T(2) * sh[0] / T(n);
}

template <typename T>
__global__ void descend(T* theta, const T* grad, T lr, int n) {
  int i = threadIdx.x;
  if (i < n) theta[i] -= lr * grad[i];
}

template <typename T>
struct DeviceVector {
  T* ptr = nullptr;
  size_t count;
  explicit DeviceVector(size_t c) : count(c) {
    if (cudaMalloc(reinterpret_cast<void**>(&ptr), c * sizeof(T)) != cudaSuccess) std::abort();
  }
  explicit DeviceVector(const std::vector<T>& h) : DeviceVector(h.size()) {
    cudaMemcpy(ptr, h.data(), count * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~DeviceVector() { cudaFree(ptr); }
  DeviceVector(const DeviceVector&) = delete;
  std::vector<T> host() const {
    std::vector<T> h(count);
    cudaMemcpy(h.data(), ptr, count * sizeof(T), cudaMemcpyDeviceToHost);
    return h;
  }
};

template <typename T>
T cosine_lr(T lr_max, T lr_min, int step, int total) {
  return lr_min + T(0.5) * (lr_max - lr_min) * (T(1) + std::cos(T(3.14159265358979) * step / total));
}

template <typename T>
int train(const char* path) {
  constexpr int n = 512, d = 12, batch = 64, epochs = 10;
  const int total = epochs * (n / batch);
  std::mt19937 gen(99);
  std::normal_distribution<T> normal(T(0), T(1));
  std::vector<T> truth(d + 1), x(n * d), y(n);
  for (auto& t : truth) t = normal(gen);
  for (int i = 0; i < n; ++i) {
    y[i] = truth[d] + T(0.05) * normal(gen);
    for (int j = 0; j < d; ++j) {
      x[i * d + j] = normal(gen);
      y[i] += x[i * d + j] * truth[j];
    }
  }
  DeviceVector<T> dx(x), dy(y), theta(std::vector<T>(d + 1, T(0))), grad(d + 1), residual(batch);
  int step = 0;
  for (int e = 0; e < epochs; ++e) {
    T mse = T(0);
    for (int b = 0; b < n; b += batch, ++step) {
      T lr = cosine_lr(T(0.1), T(0.001), step, total);
      predict<T><<<2, batch / 2>>>(dx.ptr + b * d, theta.ptr, dy.ptr + b, residual.ptr, batch, d);
      gradient<T, 32><<<d + 1, 32>>>(dx.ptr + b * d, residual.ptr, grad.ptr, batch, d);
      descend<T><<<1, 32>>>(theta.ptr, grad.ptr, lr, d + 1);
      for (T r : residual.host()) mse += r * r;
    }
    std::printf("epoch %d  lr %.5f  mse %.6f\n", e + 1, double(cosine_lr(T(0.1), T(0.001), step, total)),
                double(mse / n));
  }
  cudaError_t err = cudaDeviceSynchronize();
  if (err != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(err));
    return 1;
  }
  std::vector<T> w = theta.host();
  T worst = T(0);
  for (int j = 0; j <= d; ++j) worst = std::max(worst, std::abs(w[j] - truth[j]));
  std::printf("largest coefficient error %.4f\n", double(worst));
  std::FILE* f = std::fopen(path, "wb");
  if (!f) return 1;
  std::fwrite(w.data(), sizeof(T), w.size(), f);
  std::fclose(f);
  return 0;
}

int main(int argc, char** argv) { return train<float>(argc > 1 ? argv[1] : "weights.bin"); }
