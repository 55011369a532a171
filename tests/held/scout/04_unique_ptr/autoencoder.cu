// Autoencoder, device memory owned by std::unique_ptr with a custom deleter.
// RMSprop; the last batch of an epoch may be smaller than the others.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <vector>

struct CudaFree {
  void operator()(float* p) const { cudaFree(p); }
};
using DevPtr = std::unique_ptr<float[], CudaFree>;

DevPtr deviceAlloc(std::size_t count) {
  float* raw = nullptr;
  if (cudaMalloc(reinterpret_cast<void**>(&raw), count * sizeof(float)) != cudaSuccess) throw std::bad_alloc();
  cudaMemset(raw, 0, count * sizeof(float));
  return DevPtr(raw);
}

constexpr int kTile = 8;

// C[m x n] = op(A) * op(B), row major, simple tiled product
template <bool TA, bool TB>
__global__ void gemm(const float* A, const float* B, float* C, int m, int n, int k) {
  __shared__ float sa[kTile][kTile], sb[kTile][kTile];
  int row = blockIdx.y * kTile + threadIdx.y, col = blockIdx.x * kTile + threadIdx.x;
  float acc = 0.f;
  for (int t = 0; t < k; t += kTile) {
    int ka = t + threadIdx.x, kb = t + threadIdx.y;
    sa[threadIdx.y][threadIdx.x] = (row < m && ka < k) ? (TA ? A[ka * m + row] : A[row * k + ka]) : 0.f;
    sb[threadIdx.y][threadIdx.x] = (col < n && kb < k) ? (TB ? B[col * k + kb] : B[kb * n + col]) : 0.f;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) acc += sa[threadIdx.y][i] * sb[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) C[row * n + col] = acc;
}

template <bool TA, bool TB>
void product(const float* A, const float* B, float* C, int m, int n, int k) {
  dim3 grid((n + kTile - 1) / kTile, (m + kTile - 1) / kTile), block(kTile, kTile);
  gemm<TA, TB><<<grid, block>>>(A, B, C, m, n, k);
}

__global__ void biasSigmoid(float* y, const float* b, int total, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < total) y[i] = 1.f / (1.f + expf(-(y[i] + b[i % cols])));
}

__global__ void sigmoidGrad(const float* y, float* d, int total) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < total) d[i] *= y[i] * (1.f - y[i]);
}

__global__ void columnSum(const float* d, float* out, int rows, int cols) {
  int c = threadIdx.x;
  float s = 0.f;
  for (int r = 0; r < rows; ++r) s += d[r * cols + c];
  out[c] = s;
}

// binary cross entropy, delta is taken directly at the pre-activation
__global__ void bce(const float* y, const float* x, float* d, float* loss, int total, float inv) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  d[i] = (y[i] - x[i]) * inv;
  atomicAdd(loss, -inv * (x[i] * logf(y[i] + 1e-7f) + (1.f - x[i]) * logf(1.f - y[i] + 1e-7f)));
}

__global__ void rmsprop(float* w, const float* g, float* s, int n, float lr, float decay) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  s[i] = decay * s[i] + (1.f - decay) * g[i] * g[i];
  w[i] -= lr * g[i] * rsqrtf(s[i] + 1e-8f);
}

struct Param {
  int size;
  DevPtr value, grad, cache;
  explicit Param(int n) : size(n), value(deviceAlloc(n)), grad(deviceAlloc(n)), cache(deviceAlloc(n)) {}
  void randomize(std::mt19937& gen, float limit) {
    std::uniform_real_distribution<float> u(-limit, limit);
    std::vector<float> h(size);
    for (auto& v : h) v = u(gen);
    cudaMemcpy(value.get(), h.data(), size * sizeof(float), cudaMemcpyHostToDevice);
  }
  void step(float lr) {
    rmsprop<<<(size + 63) / 64, 64>>>(value.get(), grad.get(), cache.get(), size, lr, 0.95f);
  }
};

class AutoEncoder {
 public:
  AutoEncoder(int visible, int code, int maxBatch, std::mt19937& gen)
      : nv(visible), nc(code), encW(visible * code), encB(code), decW(code * visible), decB(visible),
        x(deviceAlloc(maxBatch * visible)), h(deviceAlloc(maxBatch * code)), y(deviceAlloc(maxBatch * visible)),
        dy(deviceAlloc(maxBatch * visible)), dh(deviceAlloc(maxBatch * code)), loss(deviceAlloc(1)) {
    encW.randomize(gen, std::sqrt(6.f / (visible + code)));
    decW.randomize(gen, std::sqrt(6.f / (visible + code)));
  }

  float trainBatch(const float* host, int n, float lr) {
    cudaMemcpy(x.get(), host, sizeof(float) * n * nv, cudaMemcpyHostToDevice);
    product<false, false>(x.get(), encW.value.get(), h.get(), n, nc, nv);
    biasSigmoid<<<(n * nc + 127) / 128, 128>>>(h.get(), encB.value.get(), n * nc, nc);
    product<false, false>(h.get(), decW.value.get(), y.get(), n, nv, nc);
    biasSigmoid<<<(n * nv + 127) / 128, 128>>>(y.get(), decB.value.get(), n * nv, nv);

    cudaMemset(loss.get(), 0, sizeof(float));
    bce<<<(n * nv + 127) / 128, 128>>>(y.get(), x.get(), dy.get(), loss.get(), n * nv, 1.f / n);

    product<true, false>(h.get(), dy.get(), decW.grad.get(), nc, nv, n);
    columnSum<<<1, nv>>>(dy.get(), decB.grad.get(), n, nv);
    product<false, true>(dy.get(), decW.value.get(), dh.get(), n, nc, nv);
    sigmoidGrad<<<(n * nc + 127) / 128, 128>>>(h.get(), dh.get(), n * nc);
    product<true, false>(x.get(), dh.get(), encW.grad.get(), nv, nc, n);
    columnSum<<<1, nc>>>(dh.get(), encB.grad.get(), n, nc);

    for (Param* p : {&encW, &encB, &decW, &decB}) p->step(lr);

    float result = 0.f;
    cudaMemcpy(&result, loss.get(), sizeof(float), cudaMemcpyDeviceToHost);
    return result;
  }

  void save(const char* path) const {
    std::ofstream out(path, std::ios::binary);
    for (const Param* p : {&encW, &encB, &decW, &decB}) {
      std::vector<float> v(p->size);
      cudaMemcpy(v.data(), p->value.get(), p->size * sizeof(float), cudaMemcpyDeviceToHost);
      out.write(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float));
    }
  }

 private:
  int nv, nc;
  Param encW, encB, decW, decB;
  DevPtr x, h, y, dy, dh, loss;
};

int main() {
  constexpr int side = 8, visible = side * side, count = 500, batch = 48;
  std::mt19937 gen(2024);
  // images with one bright bar, horizontal or vertical
  std::vector<float> images(count * visible, 0.f);
  for (int i = 0; i < count; ++i) {
    int pos = gen() % side;
    bool vertical = gen() & 1;
    for (int k = 0; k < side; ++k) images[i * visible + (vertical ? k * side + pos : pos * side + k)] = 1.f;
  }

  AutoEncoder model(visible, 16, batch, gen);
  for (int epoch = 1; epoch <= 15; ++epoch) {
    float mean = 0.f;
    for (int start = 0; start < count; start += batch) {
      int n = std::min(batch, count - start);
      mean += model.trainBatch(&images[start * visible], n, 0.01f) * n / count;
    }
    std::cout << "epoch " << epoch << ": loss = " << mean << std::endl;
  }
  model.save("autoencoder.bin");
  return 0;
}
