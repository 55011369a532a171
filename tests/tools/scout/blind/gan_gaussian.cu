// GAN that learns a 1-D Gaussian. Generator and discriminator are small MLPs,
// each with its own optimizer (momentum SGD for D, Adam for G), updated in turn.
#include <cuda_runtime.h>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#define CHECK(c) do { cudaError_t r_ = (c); if (r_ != cudaSuccess) { \
  std::fprintf(stderr, "%s (line %d)\n", cudaGetErrorString(r_), __LINE__); std::abort(); } } while (0)

namespace gan {

constexpr int kBatch = 32;

struct FreeDevice { void operator()(float* p) const { cudaFree(p); } };
using Buf = std::unique_ptr<float[], FreeDevice>;

Buf make_buf(int n) {
  float* p = nullptr;
  CHECK(cudaMalloc(&p, n * sizeof(float)));
  CHECK(cudaMemset(p, 0, n * sizeof(float)));
  return Buf(p);
}

// Parameter block layout for 1 -> H -> 1: w1[H] b1[H] w2[H] b2.
__global__ void forward(const float* th, const float* in, float* hid, float* out, int h) {
  int n = threadIdx.x;
  float y = th[3 * h];
  for (int j = 0; j < h; ++j) {
    float a = tanhf(th[j] * in[n] + th[h + j]);
    hid[n * h + j] = a;
    y += th[2 * h + j] * a;
  }
  out[n] = y;
}

// Gradient with respect to the parameters (added) for one hidden unit per thread.
__global__ void backward_params(const float* th, const float* in, const float* hid, const float* dout,
                                float* g, int h, int batch) {
  int j = threadIdx.x;
  float g1 = 0.f, gb = 0.f, g2 = 0.f, gb2 = 0.f;
  for (int n = 0; n < batch; ++n) {
    float a = hid[n * h + j], d = dout[n] * th[2 * h + j] * (1.f - a * a);
    g1 += d * in[n];
    gb += d;
    g2 += dout[n] * a;
    gb2 += dout[n];
  }
  g[j] += g1;
  g[h + j] += gb;
  g[2 * h + j] += g2;
  if (j == 0) g[3 * h] += gb2;
}

__global__ void backward_input(const float* th, const float* hid, const float* dout, float* din, int h) {
  int n = threadIdx.x;
  float s = 0.f;
  for (int j = 0; j < h; ++j) {
    float a = hid[n * h + j];
    s += th[2 * h + j] * (1.f - a * a) * th[j];
  }
  din[n] = s * dout[n];
}

// Binary cross-entropy on logits against a constant label.
__global__ void bce(const float* logit, float label, float* dlogit, float* loss, int batch) {
  int n = threadIdx.x;
  float z = logit[n];
  loss[n] = fmaxf(z, 0.f) - z * label + log1pf(expf(-fabsf(z)));
  dlogit[n] = (1.f / (1.f + expf(-z)) - label) / batch;
}

__global__ void momentum_step(float* th, const float* g, float* vel, float lr, float mu, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  vel[i] = mu * vel[i] + g[i];
  th[i] -= lr * vel[i];
}

__global__ void adam_step(float* th, const float* g, float* m, float* v, float lr, float c1, float c2, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  m[i] = 0.5f * m[i] + 0.5f * g[i];
  v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
  th[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

struct Net {
  int h, n;
  Buf theta, grad, hidden, out, din;
  Net(int hidden_units, std::mt19937& rng)
      : h(hidden_units), n(3 * hidden_units + 1), theta(make_buf(n)), grad(make_buf(n)),
        hidden(make_buf(kBatch * h)), out(make_buf(kBatch)), din(make_buf(kBatch)) {
    std::normal_distribution<float> nd(0.f, 1.f);
    std::vector<float> init(n);
    for (int i = 0; i < n; ++i) init[i] = i < 2 * h ? 0.6f * nd(rng) : 0.2f * nd(rng);
    CHECK(cudaMemcpy(theta.get(), init.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  }
  void run(const float* in) { forward<<<1, kBatch>>>(theta.get(), in, hidden.get(), out.get(), h); }
  void accumulate(const float* in, const float* dout) {
    backward_params<<<1, h>>>(theta.get(), in, hidden.get(), dout, grad.get(), h, kBatch);
  }
  void to_input(const float* dout) { backward_input<<<1, kBatch>>>(theta.get(), hidden.get(), dout, din.get(), h); }
  void clear() { CHECK(cudaMemset(grad.get(), 0, n * sizeof(float))); }
};

struct Momentum {
  Net& net;
  Buf vel;
  explicit Momentum(Net& x) : net(x), vel(make_buf(x.n)) {}
  void step() {
    momentum_step<<<(net.n + 63) / 64, 64>>>(net.theta.get(), net.grad.get(), vel.get(), 0.6f, 0.5f, net.n);
  }
};

struct Adam {
  Net& net;
  Buf m, v;
  int t = 0;
  explicit Adam(Net& x) : net(x), m(make_buf(x.n)), v(make_buf(x.n)) {}
  void step() {
    ++t;
    adam_step<<<(net.n + 63) / 64, 64>>>(net.theta.get(), net.grad.get(), m.get(), v.get(), 0.01f,
                                         1.f - std::pow(0.5f, t), 1.f - std::pow(0.99f, t), net.n);
  }
};

}  // namespace gan

int main(int argc, char** argv) {
  using namespace gan;
  const int total = 640, epochs = 10;
  std::mt19937 rng(1958);
  std::normal_distribution<float> data_dist(2.f, 0.5f), z_dist(0.f, 1.f);
  std::vector<float> real(total);
  for (float& r : real) r = data_dist(rng);

  Net G(12, rng), D(16, rng);
  Momentum optD(D);
  Adam optG(G);
  Buf x = make_buf(kBatch), z = make_buf(kBatch), dlogit = make_buf(kBatch), loss = make_buf(kBatch);
  std::array<float, kBatch> host;
  auto mean_loss = [&] {
    CHECK(cudaMemcpy(host.data(), loss.get(), sizeof(host), cudaMemcpyDeviceToHost));
    float s = 0.f;
    for (float v : host) s += v;
    return s / kBatch;
  };
  auto sample_z = [&] {
    for (float& v : host) v = z_dist(rng);
    CHECK(cudaMemcpy(z.get(), host.data(), sizeof(host), cudaMemcpyHostToDevice));
  };
  auto score = [&](const float* in, float label) {
    D.run(in);
    bce<<<1, kBatch>>>(D.out.get(), label, dlogit.get(), loss.get(), kBatch);
    return mean_loss();
  };

  for (int e = 0; e < epochs; ++e) {
    float ld = 0.f, lg = 0.f, mean = 0.f, sq = 0.f;
    for (int s = 0; s < total; s += kBatch) {
      // discriminator: real samples, then generated ones
      D.clear();
      CHECK(cudaMemcpy(x.get(), &real[s], sizeof(host), cudaMemcpyHostToDevice));
      ld += score(x.get(), 1.f);
      D.accumulate(x.get(), dlogit.get());
      sample_z();
      G.run(z.get());
      ld += score(G.out.get(), 0.f);
      D.accumulate(G.out.get(), dlogit.get());
      optD.step();
      // generator
      G.clear();
      sample_z();
      G.run(z.get());
      lg += score(G.out.get(), 1.f);
      D.to_input(dlogit.get());
      G.accumulate(z.get(), D.din.get());
      optG.step();
      CHECK(cudaMemcpy(host.data(), G.out.get(), sizeof(host), cudaMemcpyDeviceToHost));
      for (float v : host) {
        mean += v;
        sq += v * v;
      }
    }
    mean /= total;
    std::printf("epoch %2d  lossD %.4f  lossG %.4f  fake mean %.3f sd %.3f\n", e + 1, ld / (total / kBatch),
                lg / (total / kBatch), mean, std::sqrt(sq / total - mean * mean));
  }

  std::FILE* f = std::fopen(argc > 1 ? argv[1] : "weights.bin", "wb");
  if (!f) return 1;
  for (Net* net : {&G, &D}) {
    std::vector<float> h(net->n);
    CHECK(cudaMemcpy(h.data(), net->theta.get(), net->n * sizeof(float), cudaMemcpyDeviceToHost));
    std::fwrite(h.data(), sizeof(float), h.size(), f);
  }
  std::fclose(f);
  return 0;
}
