// Classifier for 7-segment style digits with noise. All heavy work, the
// parameter update included, goes through cuBLAS.
//   usage: train [-b batch] [-e epochs] [-l rate] [-m momentum] [-w decay] [-H hidden] [-s seed]
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

struct Options {
  int batch = 32;
  int epochs = 8;
  int hidden = 40;
  float rate = 0.05f;
  float momentum = 0.9f;
  float decay = 1e-4f;
  unsigned seed = 3;
  const char* output = "digits.bin";
};

static Options parse(int argc, char** argv) {
  Options o;
  int c;
  while ((c = getopt(argc, argv, "b:e:l:m:w:H:s:o:")) != -1) {
    switch (c) {
      case 'b': o.batch = std::atoi(optarg); break;
      case 'e': o.epochs = std::atoi(optarg); break;
      case 'l': o.rate = std::atof(optarg); break;
      case 'm': o.momentum = std::atof(optarg); break;
      case 'w': o.decay = std::atof(optarg); break;
      case 'H': o.hidden = std::atoi(optarg); break;
      case 's': o.seed = std::atoi(optarg); break;
      case 'o': o.output = optarg; break;
      default: std::exit(1);
    }
  }
  return o;
}

#define CU(x) do { cudaError_t e = x; if (e) { std::fprintf(stderr, "CUDA error %d line %d\n", e, __LINE__); std::abort(); } } while (0)
#define CB(x) do { cublasStatus_t e = x; if (e) { std::fprintf(stderr, "cuBLAS error %d line %d\n", e, __LINE__); std::abort(); } } while (0)

const int kPixels = 7 * 9, kClasses = 10;

struct Dataset {
  int n;
  std::vector<float> pixels;
  std::vector<int> labels;
};

static Dataset makeDigits(int n, std::mt19937& rng) {
  static const unsigned char seg[10] = {0x77, 0x24, 0x5d, 0x6d, 0x2e, 0x6b, 0x7b, 0x25, 0x7f, 0x6f};
  Dataset d{n, std::vector<float>(n * kPixels, 0.f), std::vector<int>(n)};
  std::normal_distribution<float> noise(0.f, 0.45f);
  for (int i = 0; i < n; ++i) {
    int y = d.labels[i] = rng() % 10, ox = rng() % 2, oy = rng() % 2;
    auto at = [&](int r, int c) -> float& { return d.pixels[i * kPixels + (r + oy) * 7 + c + ox]; };
    for (int k = 0; k < 4; ++k) {
      if (seg[y] & 0x01) at(0, k + 1) = 1;
      if (seg[y] & 0x08) at(4, k + 1) = 1;
      if (seg[y] & 0x40) at(7, k + 1) = 1;
      if (seg[y] & 0x02) at(k, 0) = 1;
      if (seg[y] & 0x04) at(k, 5) = 1;
      if (seg[y] & 0x10) at(k + 4, 0) = 1;
      if (seg[y] & 0x20) at(k + 4, 5) = 1;
    }
    for (int p = 0; p < kPixels; ++p) d.pixels[i * kPixels + p] += noise(rng);
  }
  return d;
}

// one sample is one column, so every matrix is column major
__global__ void biasRelu(float* a, const float* b, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * cols) a[i] = fmaxf(0.f, a[i] + b[i % rows]);
}
__global__ void reluMask(float* d, const float* a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && a[i] <= 0.f) d[i] = 0.f;
}
__global__ void softmaxColumns(float* z, const float* b, const int* y, float* loss, int* hit, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  z += c * kClasses;
  float mx = -1e30f, s = 0.f;
  int best = 0;
  for (int k = 0; k < kClasses; ++k) {
    z[k] += b[k];
    if (z[k] > mx) { mx = z[k]; best = k; }
  }
  for (int k = 0; k < kClasses; ++k) s += (z[k] = expf(z[k] - mx));
  for (int k = 0; k < kClasses; ++k) z[k] /= s;
  loss[c] = -logf(fmaxf(z[y[c]], 1e-12f));
  hit[c] = best == y[c];
  z[y[c]] -= 1.f;  // p - onehot
}
__global__ void fill(float* p, float v, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = v;
}

struct Matrix {
  int rows, cols;
  float *w, *grad, *vel;
  Matrix(int r, int c, float sd, std::mt19937& rng) : rows(r), cols(c) {
    for (float** p : {&w, &grad, &vel}) CU(cudaMalloc((void**)p, r * c * sizeof(float)));
    CU(cudaMemset(vel, 0, r * c * sizeof(float)));
    std::normal_distribution<float> g(0.f, 1.f);
    std::vector<float> h(r * c);
    for (float& x : h) x = sd * g(rng);
    CB(cublasSetMatrix(r, c, sizeof(float), h.data(), r, w, r));
  }
  void momentum(cublasHandle_t h, float rate, float mu, float decay) {
    int n = rows * cols;
    float minus = -rate;
    CB(cublasSaxpy(h, n, &decay, w, 1, grad, 1));
    CB(cublasSscal(h, n, &mu, vel, 1));
    const float one = 1.f;
    CB(cublasSaxpy(h, n, &one, grad, 1, vel, 1));
    CB(cublasSaxpy(h, n, &minus, vel, 1, w, 1));
  }
};

int main(int argc, char** argv) {
  const Options opt = parse(argc, argv);
  std::mt19937 rng(opt.seed);
  Dataset train = makeDigits(1000, rng), test = makeDigits(200, rng);
  cublasHandle_t blas;
  CB(cublasCreate(&blas));

  const int H = opt.hidden, B = opt.batch;
  Matrix W1(H, kPixels, std::sqrt(2.f / kPixels), rng), b1(H, 1, 0.f, rng);
  Matrix W2(kClasses, H, std::sqrt(1.f / H), rng), b2(kClasses, 1, 0.f, rng);
  float *x, *a, *da, *z, *ones, *loss;
  int *y, *hit;
  CU(cudaMalloc((void**)&x, kPixels * B * sizeof(float)));
  CU(cudaMalloc((void**)&a, H * B * sizeof(float)));
  CU(cudaMalloc((void**)&da, H * B * sizeof(float)));
  CU(cudaMalloc((void**)&z, kClasses * B * sizeof(float)));
  CU(cudaMalloc((void**)&ones, B * sizeof(float)));
  CU(cudaMalloc((void**)&loss, B * sizeof(float)));
  CU(cudaMalloc((void**)&y, B * sizeof(int)));
  CU(cudaMalloc((void**)&hit, B * sizeof(int)));
  fill<<<(B + 63) / 64, 64>>>(ones, 1.f, B);

  const float one = 1.f, zero = 0.f;
  auto forward = [&](const Dataset& d, int start, int n) {
    CU(cudaMemcpy(x, &d.pixels[start * kPixels], n * kPixels * sizeof(float), cudaMemcpyHostToDevice));
    CU(cudaMemcpy(y, &d.labels[start], n * sizeof(int), cudaMemcpyHostToDevice));
    CB(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, H, n, kPixels, &one, W1.w, H, x, kPixels, &zero, a, H));
    biasRelu<<<(H * n + 127) / 128, 128>>>(a, b1.w, H, n);
    CB(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, kClasses, n, H, &one, W2.w, kClasses, a, H, &zero, z, kClasses));
    softmaxColumns<<<(n + 63) / 64, 64>>>(z, b2.w, y, loss, hit, n);
  };

  std::vector<float> hl(B);
  std::vector<int> hh(B);
  for (int e = 0; e < opt.epochs; ++e) {
    float total = 0.f;
    for (int i = 0; i < train.n; i += B) {
      const int n = std::min(B, train.n - i);
      forward(train, i, n);
      const float inv = 1.f / n;
      CB(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, kClasses, H, n, &inv, z, kClasses, a, H, &zero, W2.grad, kClasses));
      CB(cublasSgemv(blas, CUBLAS_OP_N, kClasses, n, &inv, z, kClasses, ones, 1, &zero, b2.grad, 1));
      CB(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, H, n, kClasses, &one, W2.w, kClasses, z, kClasses, &zero, da, H));
      reluMask<<<(H * n + 127) / 128, 128>>>(da, a, H * n);
      CB(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, H, kPixels, n, &inv, da, H, x, kPixels, &zero, W1.grad, H));
      CB(cublasSgemv(blas, CUBLAS_OP_N, H, n, &inv, da, H, ones, 1, &zero, b1.grad, 1));

      W1.momentum(blas, opt.rate, opt.momentum, opt.decay);
      b1.momentum(blas, opt.rate, opt.momentum, 0.f);
      W2.momentum(blas, opt.rate, opt.momentum, opt.decay);
      b2.momentum(blas, opt.rate, opt.momentum, 0.f);

      CU(cudaMemcpy(hl.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost));
      for (int k = 0; k < n; ++k) total += hl[k];
    }
    int right = 0;
    for (int i = 0; i < test.n; i += B) {
      const int n = std::min(B, test.n - i);
      forward(test, i, n);
      CU(cudaMemcpy(hh.data(), hit, n * sizeof(int), cudaMemcpyDeviceToHost));
      for (int k = 0; k < n; ++k) right += hh[k];
    }
    std::printf("[%2d/%d] loss=%.4f  test=%.1f%%\n", e + 1, opt.epochs, total / train.n, 100.f * right / test.n);
  }

  if (FILE* f = std::fopen(opt.output, "wb")) {
    for (Matrix* m : {&W1, &b1, &W2, &b2}) {
      std::vector<float> h(m->rows * m->cols);
      CB(cublasGetMatrix(m->rows, m->cols, sizeof(float), m->w, m->rows, h.data(), m->rows));
      std::fwrite(h.data(), sizeof(float), h.size(), f);
    }
    std::fclose(f);
  }
  cublasDestroy(blas);
  return 0;
}
