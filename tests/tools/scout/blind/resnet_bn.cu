// Residual MLP with batch normalisation. Running statistics are kept for evaluation.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_) { std::cerr << #x << ": " << cudaGetErrorString(e_) << '\n'; std::exit(1); } } while (false)

namespace kernels {
__global__ void affine(const float* x, const float* w, const float* b, float* y, int rows, int in, int out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * out) return;
  int r = i / out, c = i % out;
  float s = b ? b[c] : 0.f;
  for (int k = 0; k < in; ++k) s += x[r * in + k] * w[k * out + c];
  y[i] = s;
}
__global__ void affine_dx(const float* dy, const float* w, float* dx, int rows, int in, int out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * in) return;
  int r = i / in, k = i % in;
  float s = 0.f;
  for (int c = 0; c < out; ++c) s += dy[r * out + c] * w[k * out + c];
  dx[i] = s;
}
__global__ void affine_dw(const float* x, const float* dy, float* dw, float* db, int rows, int in, int out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= in * out) return;
  int k = i / out, c = i % out;
  float s = 0.f, sb = 0.f;
  for (int r = 0; r < rows; ++r) {
    s += x[r * in + k] * dy[r * out + c];
    sb += dy[r * out + c];
  }
  dw[i] = s;
  if (db && k == 0) db[c] = sb;
}
// One thread per channel.
__global__ void bn_stats(const float* x, float* mean, float* inv_std, float* run_mean, float* run_var, int rows, int ch,
                         float momentum) {
  int c = threadIdx.x;
  if (c >= ch) return;
  float m = 0.f, v = 0.f;
  for (int r = 0; r < rows; ++r) m += x[r * ch + c];
  m /= rows;
  for (int r = 0; r < rows; ++r) v += (x[r * ch + c] - m) * (x[r * ch + c] - m);
  v /= rows;
  mean[c] = m;
  inv_std[c] = rsqrtf(v + 1e-5f);
  run_mean[c] = (1.f - momentum) * run_mean[c] + momentum * m;
  run_var[c] = (1.f - momentum) * run_var[c] + momentum * v * rows / (rows - 1);
}
__global__ void bn_from_running(const float* run_mean, const float* run_var, float* mean, float* inv_std, int ch) {
  int c = threadIdx.x;
  if (c >= ch) return;
  mean[c] = run_mean[c];
  inv_std[c] = rsqrtf(run_var[c] + 1e-5f);
}
__global__ void bn_relu(const float* x, const float* mean, const float* inv_std, const float* gamma, const float* beta,
                        float* xhat, float* y, int n, int ch) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int c = i % ch;
  xhat[i] = (x[i] - mean[c]) * inv_std[c];
  y[i] = fmaxf(gamma[c] * xhat[i] + beta[c], 0.f);
}
__global__ void bn_relu_back(const float* y, const float* xhat, const float* inv_std, const float* gamma, float* dy,
                             float* dx, float* dgamma, float* dbeta, int rows, int ch) {
  int c = threadIdx.x;
  if (c >= ch) return;
  float sg = 0.f, sb = 0.f;
  for (int r = 0; r < rows; ++r) {
    int i = r * ch + c;
    if (y[i] <= 0.f) dy[i] = 0.f;
    sg += dy[i] * xhat[i];
    sb += dy[i];
  }
  dgamma[c] = sg;
  dbeta[c] = sb;
  for (int r = 0; r < rows; ++r) {
    int i = r * ch + c;
    dx[i] = gamma[c] * inv_std[c] * (dy[i] - (sb + xhat[i] * sg) / rows);
  }
}
__global__ void add(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}
__global__ void cross_entropy(const float* z, const int* label, float* dz, float* loss, int rows, int k) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float m = -1e30f, s = 0.f;
  for (int c = 0; c < k; ++c) m = fmaxf(m, z[r * k + c]);
  for (int c = 0; c < k; ++c) s += expf(z[r * k + c] - m);
  for (int c = 0; c < k; ++c) dz[r * k + c] = (expf(z[r * k + c] - m) / s - (c == label[r] ? 1.f : 0.f)) / rows;
  loss[r] = logf(s) + m - z[r * k + label[r]];
}
__global__ void nesterov(float* w, const float* g, float* v, int n, float lr, float mu) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float prev = v[i];
  v[i] = mu * v[i] - lr * g[i];
  w[i] += (1.f + mu) * v[i] - mu * prev;
}
}  // namespace kernels

struct Array {
  std::shared_ptr<float> p;
  int n = 0;
  Array() = default;
  explicit Array(int count, float value = 0.f) : n(count) {
    float* raw;
    CK(cudaMalloc((void**)&raw, n * sizeof(float)));
    p = std::shared_ptr<float>(raw, [](float* q) { cudaFree(q); });
    set(std::vector<float>(n, value));
  }
  void set(const std::vector<float>& h) { CK(cudaMemcpy(p.get(), h.data(), n * sizeof(float), cudaMemcpyHostToDevice)); }
  std::vector<float> get() const {
    std::vector<float> h(n);
    CK(cudaMemcpy(h.data(), p.get(), n * sizeof(float), cudaMemcpyDeviceToHost));
    return h;
  }
  operator float*() const { return p.get(); }
};

struct Param {
  Array value, grad, vel;
};
static std::vector<Param> registry;

Param make_param(int n, float fill) {
  Param p{Array(n, fill), Array(n), Array(n)};
  registry.push_back(p);
  return p;
}
Param make_weight(int in, int out, std::mt19937& rng) {
  Param p = make_param(in * out, 0.f);
  std::normal_distribution<float> d(0.f, std::sqrt(1.5f / in));
  std::vector<float> h(in * out);
  for (auto& x : h) x = d(rng);
  p.value.set(h);
  return p;
}

const int B = 32, IN = 6, W = 16, CLS = 3, BLOCKS = 2, TPB = 128;
#define GRID(n) ((n) + TPB - 1) / TPB, TPB

// y = x + W2 relu(bn(W1 x))
struct Block {
  Param w1, gamma, beta, w2, b2;
  Array run_mean{W}, run_var{W, 1.f}, mean{W}, inv_std{W};
  Array pre{B * W}, xhat{B * W}, act{B * W}, out{B * W}, dact{B * W}, dpre{B * W}, dx{B * W};
  explicit Block(std::mt19937& rng)
      : w1(make_weight(W, W, rng)), gamma(make_param(W, 1.f)), beta(make_param(W, 0.f)), w2(make_weight(W, W, rng)),
        b2(make_param(W, 0.f)) {}
  float* forward(float* x, bool training) {
    kernels::affine<<<GRID(B * W)>>>(x, w1.value, nullptr, pre, B, W, W);
    if (training) kernels::bn_stats<<<1, W>>>(pre, mean, inv_std, run_mean, run_var, B, W, 0.1f);
    else kernels::bn_from_running<<<1, W>>>(run_mean, run_var, mean, inv_std, W);
    kernels::bn_relu<<<GRID(B * W)>>>(pre, mean, inv_std, gamma.value, beta.value, xhat, act, B * W, W);
    kernels::affine<<<GRID(B * W)>>>(act, w2.value, b2.value, out, B, W, W);
    kernels::add<<<GRID(B * W)>>>(out, x, B * W);
    return out;
  }
  float* backward(float* x, float* dy) {
    kernels::affine_dw<<<GRID(W * W)>>>(act, dy, w2.grad, b2.grad, B, W, W);
    kernels::affine_dx<<<GRID(B * W)>>>(dy, w2.value, dact, B, W, W);
    kernels::bn_relu_back<<<1, W>>>(act, xhat, inv_std, gamma.value, dact, dpre, gamma.grad, beta.grad, B, W);
    kernels::affine_dw<<<GRID(W * W)>>>(x, dpre, w1.grad, nullptr, B, W, W);
    kernels::affine_dx<<<GRID(B * W)>>>(dpre, w1.value, dx, B, W, W);
    kernels::add<<<GRID(B * W)>>>(dx, dy, B * W);
    return dx;
  }
};

int main(int argc, char** argv) {
  const int train = 384, valid = 96, epochs = 8;
  std::mt19937 rng(2015);
  std::normal_distribution<float> nd(0.f, 1.f);
  std::vector<float> X((train + valid) * IN);
  std::vector<int> Y(train + valid);
  for (int n = 0; n < train + valid; ++n) {  // class = shell by radius
    float r2 = 0.f;
    for (int i = 0; i < IN; ++i) X[n * IN + i] = nd(rng);
    for (int i = 0; i < 3; ++i) r2 += X[n * IN + i] * X[n * IN + i];
    Y[n] = r2 < 1.6f ? 0 : r2 < 3.4f ? 1 : 2;
  }
  Param win = make_weight(IN, W, rng), bin = make_param(W, 0.f);
  std::vector<Block> blocks;
  for (int i = 0; i < BLOCKS; ++i) blocks.emplace_back(rng);
  Param wout = make_weight(W, CLS, rng), bout = make_param(CLS, 0.f);
  Array x(B * IN), stem(B * W), logits(B * CLS), dlogits(B * CLS), dtop(B * W), loss(B);
  int* label;
  CK(cudaMalloc((void**)&label, B * sizeof(int)));

  auto forward = [&](int start, bool training) {
    CK(cudaMemcpy(x, &X[start * IN], B * IN * sizeof(float), cudaMemcpyHostToDevice));
    CK(cudaMemcpy(label, &Y[start], B * sizeof(int), cudaMemcpyHostToDevice));
    kernels::affine<<<GRID(B * W)>>>(x, win.value, bin.value, stem, B, IN, W);
    float* h = stem;
    for (auto& b : blocks) h = b.forward(h, training);
    kernels::affine<<<GRID(B * CLS)>>>(h, wout.value, bout.value, logits, B, W, CLS);
    kernels::cross_entropy<<<GRID(B)>>>(logits, label, dlogits, loss, B, CLS);
    float s = 0.f;
    for (float l : loss.get()) s += l;
    return s / B;
  };

  for (int e = 1; e <= epochs; ++e) {
    float tl = 0.f, vl = 0.f;
    for (int s = 0; s < train; s += B) {
      tl += forward(s, true);
      kernels::affine_dw<<<GRID(W * CLS)>>>(blocks.back().out, dlogits, wout.grad, bout.grad, B, W, CLS);
      kernels::affine_dx<<<GRID(B * W)>>>(dlogits, wout.value, dtop, B, W, CLS);
      float* d = dtop;
      for (int i = BLOCKS - 1; i >= 0; --i) d = blocks[i].backward(i ? blocks[i - 1].out : stem, d);
      kernels::affine_dw<<<GRID(IN * W)>>>(x, d, win.grad, bin.grad, B, IN, W);
      for (auto& p : registry) kernels::nesterov<<<GRID(p.value.n)>>>(p.value, p.grad, p.vel, p.value.n, 0.05f, 0.9f);
    }
    for (int s = train; s < train + valid; s += B) vl += forward(s, false);
    std::printf("epoch %d: train %.4f, eval (running statistics) %.4f\n", e, tl / (train / B), vl / (valid / B));
  }

  std::FILE* f = std::fopen(argc > 1 ? argv[1] : "weights.bin", "wb");
  if (!f) return 1;
  auto dump = [&](const Array& a) {
    auto h = a.get();
    std::fwrite(h.data(), sizeof(float), h.size(), f);
  };
  for (auto& p : registry) dump(p.value);
  for (auto& b : blocks) {
    dump(b.run_mean);
    dump(b.run_var);
  }
  std::fclose(f);
  cudaFree(label);
  registry.clear();
  return 0;
}
