// Convolutional network with dropout. The whole training set lives on the device,
// a batch is a window into it. Layers are values in std::vectors. Momentum.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <curand_kernel.h>

using std::vector;

inline void cudaCheck(cudaError_t code, int line) {
  if (code != cudaSuccess) {
    printf("line %d: %s\n", line, cudaGetErrorString(code));
    exit(1);
  }
}
#define CC(x) cudaCheck((x), __LINE__)

float* allocate(size_t n) {
  float* p;
  CC(cudaMalloc(&p, n * sizeof(float)));
  CC(cudaMemset(p, 0, n * sizeof(float)));
  return p;
}

struct Weights {
  size_t count;
  float *value, *delta, *speed;
};

std::mt19937 rng(90210);

Weights makeWeights(size_t n, float sd) {
  Weights w{n, allocate(n), allocate(n), allocate(n)};
  std::normal_distribution<float> g(0.f, 1.f);
  vector<float> h(n);
  for (auto& v : h) v = sd * g(rng);
  CC(cudaMemcpy(w.value, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  return w;
}

// 3x3 convolution, stride 2, padding 1, with ReLU
struct ConvLayer {
  int ci, co, in, out;
  Weights w, b;
  float *y, *dx;
};
struct DenseLayer {
  int in, out;
  bool relu;
  Weights w, b;
  float *y, *dx;
};

__global__ void convF(const float* x, const float* w, const float* b, float* y, int ci, int co, int in, int out) {
  int n = blockIdx.x, o = blockIdx.y, p = threadIdx.x / out, q = threadIdx.x % out;
  float s = b[o];
  for (int c = 0; c < ci; c++)
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 3; j++) {
        int r = 2 * p + i - 1, t = 2 * q + j - 1;
        if (r >= 0 && r < in && t >= 0 && t < in) s += x[((n * ci + c) * in + r) * in + t] * w[((o * ci + c) * 3 + i) * 3 + j];
      }
  y[((n * co + o) * out + p) * out + q] = fmaxf(s, 0.f);
}
__global__ void convW(const float* x, const float* dy, float* dw, float* db, int ci, int co, int in, int out, int batch) {
  int o = blockIdx.x, c = threadIdx.x / 9, i = threadIdx.x / 3 % 3, j = threadIdx.x % 3;
  float s = 0, t0 = 0;
  for (int n = 0; n < batch; n++)
    for (int p = 0; p < out; p++)
      for (int q = 0; q < out; q++) {
        float g = dy[((n * co + o) * out + p) * out + q];
        int r = 2 * p + i - 1, t = 2 * q + j - 1;
        if (r >= 0 && r < in && t >= 0 && t < in) s += g * x[((n * ci + c) * in + r) * in + t];
        t0 += g;
      }
  dw[o * ci * 9 + threadIdx.x] = s;
  if (threadIdx.x == 0) db[o] = t0;
}
__global__ void convX(const float* dy, const float* w, float* dx, int ci, int co, int in, int out) {
  int n = blockIdx.x, c = blockIdx.y, r = threadIdx.x / in, t = threadIdx.x % in;
  float s = 0;
  for (int o = 0; o < co; o++)
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 3; j++) {
        int p = r + 1 - i, q = t + 1 - j;
        if (p < 0 || q < 0 || p % 2 || q % 2 || p / 2 >= out || q / 2 >= out) continue;
        s += dy[((n * co + o) * out + p / 2) * out + q / 2] * w[((o * ci + c) * 3 + i) * 3 + j];
      }
  dx[((n * ci + c) * in + r) * in + t] = s;
}
__global__ void denseF(const float* x, const float* w, const float* b, float* y, int in, bool relu) {
  int n = blockIdx.x, o = threadIdx.x;
  float s = b[o];
  for (int i = 0; i < in; i++) s += x[n * in + i] * w[i * blockDim.x + o];
  y[n * blockDim.x + o] = relu ? fmaxf(s, 0.f) : s;
}
__global__ void denseW(const float* x, const float* dy, float* dw, float* db, int batch) {
  int i = blockIdx.x, o = threadIdx.x;
  float s = 0, t = 0;
  for (int n = 0; n < batch; n++) {
    s += x[n * gridDim.x + i] * dy[n * blockDim.x + o];
    t += dy[n * blockDim.x + o];
  }
  dw[i * blockDim.x + o] = s;
  if (i == 0) db[o] = t;
}
__global__ void denseX(const float* dy, const float* w, float* dx, int out) {
  int n = blockIdx.x, i = threadIdx.x;
  float s = 0;
  for (int o = 0; o < out; o++) s += dy[n * out + o] * w[i * out + o];
  dx[n * blockDim.x + i] = s;
}
__global__ void maskRelu(float* d, const float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (y[i] <= 0) d[i] = 0;
}
__global__ void seedStates(curandState* st, unsigned long long seed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  curand_init(seed, i, 0, &st[i]);
}
__global__ void dropout(float* y, float* keep, curandState* st, float rate) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  keep[i] = curand_uniform(&st[i]) > rate ? 1.f / (1.f - rate) : 0.f;
  y[i] *= keep[i];
}
__global__ void times(float* d, const float* k) { d[blockIdx.x * blockDim.x + threadIdx.x] *= k[blockIdx.x * blockDim.x + threadIdx.x]; }
__global__ void crossEntropy(const float* z, const int* y, float* dz, float* loss, int batch, int classes) {
  int n = threadIdx.x;
  float m = -1e30f, s = 0;
  for (int c = 0; c < classes; c++) m = fmaxf(m, z[n * classes + c]);
  for (int c = 0; c < classes; c++) s += expf(z[n * classes + c] - m);
  for (int c = 0; c < classes; c++) dz[n * classes + c] = (expf(z[n * classes + c] - m) / s - (y[n] == c)) / batch;
  atomicAdd(loss, m + logf(s) - z[n * classes + y[n]]);
}
__global__ void momentum(float* w, float* v, const float* g, size_t n, float lr) {
  size_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { v[i] = 0.9f * v[i] + g[i]; w[i] -= lr * v[i]; }
}
void learn(Weights& w, float lr) { momentum<<<(w.count + 63) / 64, 64>>>(w.value, w.speed, w.delta, w.count, lr); }

int main() {
  const int side = 12, pixels = side * side, classes = 4, count = 384, batch = 32, epochs = 6;
  // stripes in four directions with noise
  vector<float> images(count * pixels);
  vector<int> labels(count);
  std::uniform_real_distribution<float> u(0.f, 1.f);
  for (int n = 0; n < count; n++) {
    int k = labels[n] = rng() % classes;
    float phase = 6.28f * u(rng), a = k * 0.7854f, f = 1.2f + 0.4f * u(rng);
    for (int p = 0; p < pixels; p++)
      images[n * pixels + p] = sinf(f * (cosf(a) * (p % side) + sinf(a) * (p / side)) + phase) + 0.8f * (u(rng) - 0.5f);
  }
  float *dImages = allocate(images.size()), *dLoss = allocate(1), *keep = allocate(batch * 24);
  int* dLabels;
  curandState* states;
  CC(cudaMalloc(&dLabels, count * sizeof(int)));
  CC(cudaMalloc(&states, batch * 24 * sizeof(curandState)));
  CC(cudaMemcpy(dImages, images.data(), images.size() * sizeof(float), cudaMemcpyHostToDevice));
  CC(cudaMemcpy(dLabels, labels.data(), count * sizeof(int), cudaMemcpyHostToDevice));
  seedStates<<<batch, 24>>>(states, 1234);

  vector<ConvLayer> convs;
  int chan = 1, size = side;
  for (int next : {6, 8}) {
    int out = size / 2;
    convs.push_back({chan, next, size, out, makeWeights(next * chan * 9, sqrtf(2.f / (chan * 9))), makeWeights(next, 0),
                     allocate(batch * next * out * out), allocate(batch * chan * size * size)});
    chan = next;
    size = out;
  }
  int flat = chan * size * size;
  vector<DenseLayer> fcs;
  for (int next : {24, classes}) {
    fcs.push_back({flat, next, next != classes, makeWeights(flat * next, sqrtf(2.f / flat)), makeWeights(next, 0),
                   allocate(batch * next), allocate(batch * flat)});
    flat = next;
  }
  float* dz = allocate(batch * classes);

  for (int epoch = 0; epoch < epochs; epoch++) {
    CC(cudaMemset(dLoss, 0, sizeof(float)));
    for (int b = 0; b < count / batch; b++) {
      const float* input = dImages + b * batch * pixels;
      const int* target = dLabels + b * batch;

      const float* x = input;
      for (auto& l : convs) {
        convF<<<dim3(batch, l.co), l.out * l.out>>>(x, l.w.value, l.b.value, l.y, l.ci, l.co, l.in, l.out);
        x = l.y;
      }
      for (auto& l : fcs) {
        denseF<<<batch, l.out>>>(x, l.w.value, l.b.value, l.y, l.in, l.relu);
        if (l.relu) dropout<<<batch, l.out>>>(l.y, keep, states, 0.2f);
        x = l.y;
      }
      crossEntropy<<<1, batch>>>(x, target, dz, dLoss, batch, classes);

      float* d = dz;
      for (int i = (int)fcs.size() - 1; i >= 0; i--) {
        auto& l = fcs[i];
        if (l.relu) {
          times<<<batch, l.out>>>(d, keep);
          maskRelu<<<batch, l.out>>>(d, l.y);
        }
        denseW<<<l.in, l.out>>>(i ? fcs[i - 1].y : convs.back().y, d, l.w.delta, l.b.delta, batch);
        denseX<<<batch, l.in>>>(d, l.w.value, l.dx, l.out);
        d = l.dx;
      }
      for (int i = (int)convs.size() - 1; i >= 0; i--) {
        auto& l = convs[i];
        maskRelu<<<batch, l.co * l.out * l.out>>>(d, l.y);
        convW<<<l.co, l.ci * 9>>>(i ? convs[i - 1].y : input, d, l.w.delta, l.b.delta, l.ci, l.co, l.in, l.out, batch);
        if (i) convX<<<dim3(batch, l.ci), l.in * l.in>>>(d, l.w.value, l.dx, l.ci, l.co, l.in, l.out);
        d = l.dx;
      }
      for (auto& l : convs) { learn(l.w, 0.02f); learn(l.b, 0.02f); }
      for (auto& l : fcs) { learn(l.w, 0.02f); learn(l.b, 0.02f); }
    }
    float loss;
    CC(cudaMemcpy(&loss, dLoss, sizeof(float), cudaMemcpyDeviceToHost));
    printf("epoch %d  loss %.4f\n", epoch + 1, loss / count);
  }
  return 0;
}
