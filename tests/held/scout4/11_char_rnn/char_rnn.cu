// Character-level vanilla RNN, after min-char-rnn.py, with several streams of text at once.
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>
#include <cuda_runtime.h>

static const char *kVerse =
    "the sun was shining on the sea shining with all his might he did his very best to make the billows smooth and "
    "bright and this was odd because it was the middle of the night the moon was shining sulkily because she thought "
    "the sun had got no business to be there after the day was done ";

static void must(cudaError_t e, const char *what) {
  if (e != cudaSuccess) {
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
    abort();
  }
}

struct Options {
  int hidden_size = 64;
  int seq_length = 10;
  int batch_size = 32;   // streams
  int iterations = 150;
  float learning_rate = 0.05f;
};

struct Matrix {
  int rows = 0, cols = 0;
  float *value = nullptr, *diff = nullptr, *mem = nullptr;

  void alloc(int r, int c) {
    rows = r;
    cols = c;
    must(cudaMalloc(&value, bytes()), "malloc");
    must(cudaMalloc(&diff, bytes()), "malloc");
    must(cudaMalloc(&mem, bytes()), "malloc");
    cudaMemset(value, 0, bytes());
    cudaMemset(diff, 0, bytes());
    cudaMemset(mem, 0, bytes());
  }
  void randomize(std::mt19937 &gen, float stddev) {
    std::normal_distribution<float> d(0, stddev);
    std::vector<float> h(size());
    for (float &x : h) x = d(gen);
    must(cudaMemcpy(value, h.data(), bytes(), cudaMemcpyHostToDevice), "copy");
  }
  int size() const { return rows * cols; }
  size_t bytes() const { return size() * sizeof(float); }
};

// hnew[s][j] = tanh(Wxh[:, x[s]] + Whh h[s] + bh)
__global__ void rnn_step(const int *x, const float *h, const float *Wxh, const float *Whh, const float *bh, float *hnew,
                         int H, int V, int S) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= S * H) return;
  int s = t / H, j = t % H;
  float a = bh[j] + Wxh[j * V + x[s]];
  for (int k = 0; k < H; k++) a += Whh[j * H + k] * h[s * H + k];
  hnew[t] = tanhf(a);
}

__global__ void output_step(const int *target, const float *h, const float *Why, const float *by, float *p, float *loss,
                            int H, int V, int S, float scale) {
  extern __shared__ float buf[];
  int s = blockIdx.x, v = threadIdx.x;
  float a = by[v];
  for (int k = 0; k < H; k++) a += Why[v * H + k] * h[s * H + k];
  buf[v] = a;
  __syncthreads();
  float m = buf[0], sum = 0;
  for (int i = 1; i < V; i++) m = fmaxf(m, buf[i]);
  for (int i = 0; i < V; i++) sum += expf(buf[i] - m);
  float prob = expf(a - m) / sum;
  if (v == target[s]) atomicAdd(loss, -logf(prob) * scale);
  p[s * V + v] = (prob - (v == target[s])) * scale;
}

__global__ void backward_output(const float *dy, const float *h, float *dWhy, float *dby, int H, int V, int S) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= V * H) return;
  int v = t / H, k = t % H;
  float a = 0, b = 0;
  for (int s = 0; s < S; s++) {
    a += dy[s * V + v] * h[s * H + k];
    b += dy[s * V + v];
  }
  dWhy[t] += a;
  if (k == 0) dby[v] += b;
}

__global__ void backward_hidden(const float *dy, const float *Why, const float *dhnext, const float *h, float *draw,
                                int H, int V, int S) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= S * H) return;
  int s = t / H, k = t % H;
  float a = dhnext[t];
  for (int v = 0; v < V; v++) a += Why[v * H + k] * dy[s * V + v];
  draw[t] = a * (1 - h[t] * h[t]);
}

__global__ void backward_recurrent(const int *x, const float *draw, const float *hprev, const float *Whh, float *dWxh,
                                   float *dWhh, float *dbh, float *dhnext, int H, int V, int S) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t < H * H) {
    int j = t / H, k = t % H;
    float a = 0;
    for (int s = 0; s < S; s++) a += draw[s * H + j] * hprev[s * H + k];
    dWhh[t] += a;
  }
  if (t < S * H) {
    int s = t / H, k = t % H;
    float a = 0;
    for (int j = 0; j < H; j++) a += Whh[j * H + k] * draw[s * H + j];
    dhnext[t] = a;
    atomicAdd(&dWxh[k * V + x[s]], draw[t]);
    atomicAdd(&dbh[k], draw[t]);
  }
}

__global__ void adagrad(float *w, const float *d, float *mem, float lr, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float g = fminf(fmaxf(d[i], -5.0f), 5.0f);
  mem[i] += g * g;
  w[i] -= lr * g / sqrtf(mem[i] + 1e-8f);
}

int main(int argc, char **argv) {
  Options opt;
  if (argc > 1) opt.batch_size = atoi(argv[1]);
  if (argc > 2) opt.seq_length = atoi(argv[2]);
  if (argc > 3) opt.iterations = atoi(argv[3]);

  std::string data;
  for (int i = 0; i < 40; i++) data += kVerse;
  std::map<char, int> char_to_ix;
  for (char c : data)
    if (!char_to_ix.count(c)) {
      int ix = (int)char_to_ix.size();
      char_to_ix[c] = ix;
    }
  const int V = (int)char_to_ix.size(), H = opt.hidden_size, S = opt.batch_size, T = opt.seq_length;
  printf("data has %zu characters, %d unique.\n", data.size(), V);
  const size_t stride = data.size() / S;
  assert((int)stride > T);

  std::mt19937 gen(0);
  Matrix Wxh, Whh, Why, bh, by;
  Wxh.alloc(H, V);
  Whh.alloc(H, H);
  Why.alloc(V, H);
  bh.alloc(H, 1);
  by.alloc(V, 1);
  Wxh.randomize(gen, 0.1f);
  Whh.randomize(gen, 0.05f);
  Why.randomize(gen, 0.1f);
  Matrix *all[] = {&Wxh, &Whh, &Why, &bh, &by};

  int *inputs, *targets;
  float *hs, *dy, *draw, *dhnext, *loss;
  cudaMalloc(&inputs, T * S * sizeof(int));
  cudaMalloc(&targets, T * S * sizeof(int));
  cudaMalloc(&hs, (T + 1) * S * H * sizeof(float));   // hs[0] is carried over from the last sequence
  cudaMalloc(&dy, T * S * V * sizeof(float));
  cudaMalloc(&draw, S * H * sizeof(float));
  cudaMalloc(&dhnext, S * H * sizeof(float));
  cudaMalloc(&loss, sizeof(float));
  std::vector<int> x(T * S), y(T * S);

  float smooth_loss = T * logf(V);
  size_t p = 0;
  for (int n = 0; n < opt.iterations; n++) {
    if (n == 0 || p + T + 1 >= stride) {
      cudaMemset(hs, 0, S * H * sizeof(float));   // reset the memory
      p = 0;
    } else {
      cudaMemcpy(hs, hs + T * S * H, S * H * sizeof(float), cudaMemcpyDeviceToDevice);
    }
    for (int t = 0; t < T; t++)
      for (int s = 0; s < S; s++) {
        x[t * S + s] = char_to_ix[data[s * stride + p + t]];
        y[t * S + s] = char_to_ix[data[s * stride + p + t + 1]];
      }
    cudaMemcpy(inputs, x.data(), x.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(targets, y.data(), y.size() * sizeof(int), cudaMemcpyHostToDevice);

    cudaMemset(loss, 0, sizeof(float));
    const float scale = 1.0f / S;
    const int SH = S * H;
    for (int t = 0; t < T; t++) {
      rnn_step<<<(SH + 127) / 128, 128>>>(inputs + t * S, hs + t * SH, Wxh.value, Whh.value, bh.value,
                                          hs + (t + 1) * SH, H, V, S);
      output_step<<<S, V, V * sizeof(float)>>>(targets + t * S, hs + (t + 1) * SH, Why.value, by.value, dy + t * S * V,
                                               loss, H, V, S, scale);
    }

    for (Matrix *m : all) cudaMemset(m->diff, 0, m->bytes());
    cudaMemset(dhnext, 0, SH * sizeof(float));
    const int work = H * H > SH ? H * H : SH;
    for (int t = T - 1; t >= 0; t--) {
      backward_output<<<(V * H + 127) / 128, 128>>>(dy + t * S * V, hs + (t + 1) * SH, Why.diff, by.diff, H, V, S);
      backward_hidden<<<(SH + 127) / 128, 128>>>(dy + t * S * V, Why.value, dhnext, hs + (t + 1) * SH, draw, H, V, S);
      backward_recurrent<<<(work + 127) / 128, 128>>>(inputs + t * S, draw, hs + t * SH, Whh.value, Wxh.diff, Whh.diff,
                                                      bh.diff, dhnext, H, V, S);
    }
    must(cudaGetLastError(), "kernels");

    for (Matrix *m : all)
      adagrad<<<(m->size() + 127) / 128, 128>>>(m->value, m->diff, m->mem, opt.learning_rate, m->size());

    float l;
    must(cudaMemcpy(&l, loss, sizeof(float), cudaMemcpyDeviceToHost), "loss");
    smooth_loss = smooth_loss * 0.95f + l * 0.05f;
    if (n % 25 == 0 || n == opt.iterations - 1) printf("iter %d, loss: %f\n", n, smooth_loss);
    p += T;
  }
  return 0;
}
