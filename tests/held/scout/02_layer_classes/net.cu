// Small fully connected network made of layer objects. Matrix products by
// cuBLAS, everything else by short kernels. SGD with momentum.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#define CHECK(x)                                                              \
  do {                                                                        \
    cudaError_t err_ = (x);                                                   \
    if (err_ != cudaSuccess) throw std::runtime_error(cudaGetErrorString(err_)); \
  } while (0)

__global__ void addBias(float* y, const float* b, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * cols) y[i] += b[i % cols];
}
__global__ void sumRows(const float* dy, float* db, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  float s = 0.f;
  for (int r = 0; r < rows; ++r) s += dy[r * cols + c];
  db[c] = s;
}
__global__ void tanhFwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tanhf(x[i]);
}
__global__ void tanhBwd(const float* y, const float* dy, float* dx, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) dx[i] = dy[i] * (1.f - y[i] * y[i]);
}
// mean squared error over all rows and columns
__global__ void mse(const float* y, const float* t, float* dy, float* err, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float d = y[i] - t[i];
  err[i] = d * d;
  dy[i] = 2.f * d / n;
}
__global__ void momentumStep(float* w, float* v, const float* g, float lr, float mu, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  v[i] = mu * v[i] - lr * g[i];
  w[i] += v[i];
}

static inline int blocks(int n) { return (n + 127) / 128; }

class Layer {
 public:
  virtual ~Layer() = default;
  virtual float* forward(float* x, int rows) = 0;
  virtual float* backward(float* dy, int rows) = 0;
  virtual void update(float, float) {}
};

class Linear : public Layer {
 public:
  Linear(cublasHandle_t h, int in, int out, int maxRows, std::mt19937& rng)
      : handle_(h), in_(in), out_(out) {
    CHECK(cudaMalloc(&weight_, in * out * sizeof(float)));
    CHECK(cudaMalloc(&bias_, out * sizeof(float)));
    CHECK(cudaMalloc(&weightGrad_, in * out * sizeof(float)));
    CHECK(cudaMalloc(&biasGrad_, out * sizeof(float)));
    CHECK(cudaMalloc(&weightVel_, in * out * sizeof(float)));
    CHECK(cudaMalloc(&biasVel_, out * sizeof(float)));
    CHECK(cudaMalloc(&y_, maxRows * out * sizeof(float)));
    CHECK(cudaMalloc(&dx_, maxRows * in * sizeof(float)));
    std::vector<float> w(in * out);
    std::normal_distribution<float> nd(0.f, std::sqrt(1.f / in));
    for (auto& v : w) v = nd(rng);
    CHECK(cudaMemcpy(weight_, w.data(), w.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(bias_, 0, out * sizeof(float)));
    CHECK(cudaMemset(weightVel_, 0, in * out * sizeof(float)));
    CHECK(cudaMemset(biasVel_, 0, out * sizeof(float)));
  }
  ~Linear() override {
    for (float* p : {weight_, bias_, weightGrad_, biasGrad_, weightVel_, biasVel_, y_, dx_}) cudaFree(p);
  }
  // row-major y = x * W, W is in x out
  float* forward(float* x, int rows) override {
    x_ = x;
    const float one = 1.f, zero = 0.f;
    cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, out_, rows, in_, &one, weight_, out_, x, in_, &zero, y_, out_);
    addBias<<<blocks(rows * out_), 128>>>(y_, bias_, rows, out_);
    return y_;
  }
  float* backward(float* dy, int rows) override {
    const float one = 1.f, zero = 0.f;
    cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_T, out_, in_, rows, &one, dy, out_, x_, in_, &zero, weightGrad_, out_);
    sumRows<<<blocks(out_), 128>>>(dy, biasGrad_, rows, out_);
    cublasSgemm(handle_, CUBLAS_OP_T, CUBLAS_OP_N, in_, rows, out_, &one, weight_, out_, dy, out_, &zero, dx_, in_);
    return dx_;
  }
  void update(float lr, float mu) override {
    momentumStep<<<blocks(in_ * out_), 128>>>(weight_, weightVel_, weightGrad_, lr, mu, in_ * out_);
    momentumStep<<<blocks(out_), 128>>>(bias_, biasVel_, biasGrad_, lr, mu, out_);
  }

 private:
  cublasHandle_t handle_;
  int in_, out_;
  float *weight_, *bias_, *weightGrad_, *biasGrad_, *weightVel_, *biasVel_;
  float *y_, *dx_, *x_ = nullptr;
};

class Tanh : public Layer {
 public:
  Tanh(int width, int maxRows) : width_(width) {
    CHECK(cudaMalloc(&y_, maxRows * width * sizeof(float)));
    CHECK(cudaMalloc(&dx_, maxRows * width * sizeof(float)));
  }
  ~Tanh() override { cudaFree(y_); cudaFree(dx_); }
  float* forward(float* x, int rows) override {
    tanhFwd<<<blocks(rows * width_), 128>>>(x, y_, rows * width_);
    return y_;
  }
  float* backward(float* dy, int rows) override {
    tanhBwd<<<blocks(rows * width_), 128>>>(y_, dy, dx_, rows * width_);
    return dx_;
  }

 private:
  int width_;
  float *y_, *dx_;
};

class Network {
 public:
  void add(std::unique_ptr<Layer> l) { layers_.push_back(std::move(l)); }
  float* forward(float* x, int rows) {
    for (auto& l : layers_) x = l->forward(x, rows);
    return x;
  }
  void backward(float* dy, int rows) {
    for (auto it = layers_.rbegin(); it != layers_.rend(); ++it) dy = (*it)->backward(dy, rows);
  }
  void update(float lr, float mu) {
    for (auto& l : layers_) l->update(lr, mu);
  }

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
};

int main() {
  const int samples = 1024, inDim = 8, outDim = 2, batchSize = 32, epochs = 12;
  std::mt19937 rng(42);
  std::uniform_real_distribution<float> ud(-1.f, 1.f);
  std::vector<float> X(samples * inDim), Y(samples * outDim);
  for (auto& v : X) v = ud(rng);
  for (int i = 0; i < samples; ++i) {
    const float* x = &X[i * inDim];
    Y[i * outDim] = std::sin(2.f * x[0]) + x[1] * x[2];
    Y[i * outDim + 1] = x[3] - x[4] * x[4] + 0.5f * x[5];
  }

  cublasHandle_t handle;
  cublasCreate(&handle);
  Network net;
  net.add(std::make_unique<Linear>(handle, inDim, 32, batchSize, rng));
  net.add(std::make_unique<Tanh>(32, batchSize));
  net.add(std::make_unique<Linear>(handle, 32, 16, batchSize, rng));
  net.add(std::make_unique<Tanh>(16, batchSize));
  net.add(std::make_unique<Linear>(handle, 16, outDim, batchSize, rng));

  float *dX, *dT, *dErr, *dGrad;
  CHECK(cudaMalloc(&dX, batchSize * inDim * sizeof(float)));
  CHECK(cudaMalloc(&dT, batchSize * outDim * sizeof(float)));
  CHECK(cudaMalloc(&dErr, batchSize * outDim * sizeof(float)));
  CHECK(cudaMalloc(&dGrad, batchSize * outDim * sizeof(float)));

  std::vector<int> order(samples);
  std::iota(order.begin(), order.end(), 0);
  std::vector<float> bx(batchSize * inDim), bt(batchSize * outDim), err(batchSize * outDim);
  for (int e = 0; e < epochs; ++e) {
    std::shuffle(order.begin(), order.end(), rng);
    double sum = 0;
    for (int b = 0; b + batchSize <= samples; b += batchSize) {
      for (int i = 0; i < batchSize; ++i) {
        std::copy_n(&X[order[b + i] * inDim], inDim, &bx[i * inDim]);
        std::copy_n(&Y[order[b + i] * outDim], outDim, &bt[i * outDim]);
      }
      CHECK(cudaMemcpy(dX, bx.data(), bx.size() * sizeof(float), cudaMemcpyHostToDevice));
      CHECK(cudaMemcpy(dT, bt.data(), bt.size() * sizeof(float), cudaMemcpyHostToDevice));
      float* out = net.forward(dX, batchSize);
      mse<<<blocks(batchSize * outDim), 128>>>(out, dT, dGrad, dErr, batchSize * outDim);
      net.backward(dGrad, batchSize);
      net.update(0.05f, 0.9f);
      CHECK(cudaMemcpy(err.data(), dErr, err.size() * sizeof(float), cudaMemcpyDeviceToHost));
      sum += std::accumulate(err.begin(), err.end(), 0.0) / err.size();
    }
    std::printf("Epoch %2d  MSE %.6f\n", e + 1, sum / (samples / batchSize));
  }
  cublasDestroy(handle);
  return 0;
}
