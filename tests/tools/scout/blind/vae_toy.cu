// Variational autoencoder on a noisy ring in the plane.
// All device memory is cut from one arena; noise is drawn on the host.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <random>
#include <vector>
#include <cuda_runtime.h>

#define CUDA_TRY(x)                                                              \
  do {                                                                           \
    cudaError_t rc = (x);                                                        \
    if (rc != cudaSuccess) {                                                     \
      fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(rc)); \
      exit(1);                                                                   \
    }                                                                            \
  } while (0)

struct Arena {
  char *base = nullptr;
  size_t used = 0, cap;
  explicit Arena(size_t bytes) : cap(bytes) {
    CUDA_TRY(cudaMalloc((void **)&base, bytes));
    CUDA_TRY(cudaMemset(base, 0, bytes));
  }
  ~Arena() { cudaFree(base); }
  float *take(size_t n) {
    size_t bytes = (n * sizeof(float) + 255) / 256 * 256;
    if (used + bytes > cap) {
      fprintf(stderr, "arena is full\n");
      exit(1);
    }
    float *p = (float *)(base + used);
    used += bytes;
    return p;
  }
};

struct Tensor {
  float *v, *d;
  int rows, cols;
  int size() const { return rows * cols; }
};

Tensor cut(Arena &a, int rows, int cols) {
  Tensor t;
  t.rows = rows;
  t.cols = cols;
  t.v = a.take(rows * cols);
  t.d = a.take(rows * cols);
  return t;
}

__global__ void linear_fwd(const float *x, const float *w, const float *b, float *y, int rows, int in, int out) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (c >= out || r >= rows) return;
  float s = b[c];
  for (int k = 0; k < in; k++) s += x[r * in + k] * w[k * out + c];
  y[r * out + c] = s;
}

__global__ void linear_bwd_x(float *dx, const float *w, const float *dy, int rows, int in, int out) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (c >= in || r >= rows) return;
  float s = 0.f;
  for (int k = 0; k < out; k++) s += dy[r * out + k] * w[c * out + k];
  dx[r * in + c] = s;
}

__global__ void linear_bwd_w(const float *x, const float *dy, float *dw, float *db, int rows, int in, int out) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y * blockDim.y + threadIdx.y;
  if (c >= out || k > in) return;
  float s = 0.f;
  for (int r = 0; r < rows; r++) s += dy[r * out + c] * (k < in ? x[r * in + k] : 1.f);
  if (k < in) dw[k * out + c] = s;
  else db[c] = s;
}

__global__ void tanh_fwd(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = tanhf(x[i]);
}
__global__ void tanh_bwd(const float *y, float *d, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) d[i] *= 1.f - y[i] * y[i];
}

// stats holds (mu, logvar) for L latents per row
__global__ void sample_z(const float *stats, const float *eps, float *z, int rows, int L) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * L) return;
  int r = i / L, l = i % L;
  z[i] = stats[r * 2 * L + l] + expf(0.5f * stats[r * 2 * L + L + l]) * eps[i];
}

__global__ void sample_z_bwd(const float *stats, const float *eps, const float *dz, float *dstats, int rows, int L,
                             float beta) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * L) return;
  int r = i / L, l = i % L;
  float mu = stats[r * 2 * L + l], lv = stats[r * 2 * L + L + l];
  dstats[r * 2 * L + l] = dz[i] + beta * mu / rows;
  dstats[r * 2 * L + L + l] = dz[i] * eps[i] * 0.5f * expf(0.5f * lv) + beta * 0.5f * (expf(lv) - 1.f) / rows;
}

// One thread per row: squared error and KL divergence.
__global__ void elbo(const float *rec, float *drec, const float *x, const float *stats, float *out, int rows, int D,
                     int L) {
  int r = threadIdx.x;
  if (r >= rows) return;
  float se = 0.f, kl = 0.f;
  for (int k = 0; k < D; k++) {
    float e = rec[r * D + k] - x[r * D + k];
    se += e * e;
    drec[r * D + k] = 2.f * e / rows;
  }
  for (int l = 0; l < L; l++) {
    float mu = stats[r * 2 * L + l], lv = stats[r * 2 * L + L + l];
    kl += 0.5f * (mu * mu + expf(lv) - 1.f - lv);
  }
  out[2 * r] = se;
  out[2 * r + 1] = kl;
}

__global__ void adam(float *w, const float *g, float *m, float *v, int n, float lr, float bc1, float bc2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  m[i] += 0.1f * (g[i] - m[i]);
  v[i] += 0.001f * (g[i] * g[i] - v[i]);
  w[i] -= lr * m[i] / bc1 / (sqrtf(v[i] / bc2) + 1e-8f);
}

struct Linear {
  Tensor w, b;
  float *mw, *vw, *mb, *vb;
};

static dim3 tile(8, 8);
static dim3 cover(int cols, int rows) { return dim3((cols + 7) / 8, (rows + 7) / 8); }

Linear *linear_new(Arena &a, int in, int out, std::mt19937 &rng) {
  Linear *l = new Linear;
  l->w = cut(a, in, out);
  l->b = cut(a, 1, out);
  l->mw = a.take(in * out);
  l->vw = a.take(in * out);
  l->mb = a.take(out);
  l->vb = a.take(out);
  std::normal_distribution<float> nd(0.f, 1.f / std::sqrt((float)in));
  std::vector<float> h(in * out);
  for (float &f : h) f = nd(rng);
  CUDA_TRY(cudaMemcpy(l->w.v, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
  return l;
}

void fwd(const Linear *l, const Tensor &x, const Tensor &y) {
  linear_fwd<<<cover(y.cols, y.rows), tile>>>(x.v, l->w.v, l->b.v, y.v, x.rows, x.cols, y.cols);
}
void bwd(const Linear *l, const Tensor &x, const Tensor &y) {
  linear_bwd_w<<<cover(y.cols, x.cols + 1), tile>>>(x.v, y.d, l->w.d, l->b.d, x.rows, x.cols, y.cols);
  linear_bwd_x<<<cover(x.cols, x.rows), tile>>>(x.d, l->w.v, y.d, x.rows, x.cols, y.cols);
}

int main(int argc, char **argv) {
  const int B = 32, N = 512, D = 2, H = 20, L = 2, epochs = 12;
  const float beta = 0.05f, lr = 5e-3f;
  std::mt19937 rng(2014);
  std::normal_distribution<float> normal(0.f, 1.f);
  std::uniform_real_distribution<float> angle(0.f, 6.2831853f);
  std::vector<float> data(N * D), noise(B * L), terms(2 * B);
  for (int i = 0; i < N; i++) {
    float t = angle(rng);
    data[2 * i] = 1.5f * std::cos(t) + 0.05f * normal(rng);
    data[2 * i + 1] = 1.5f * std::sin(t) + 0.05f * normal(rng);
  }
  Arena arena(1 << 18);
  Linear *net[4] = {linear_new(arena, D, H, rng), linear_new(arena, H, 2 * L, rng), linear_new(arena, L, H, rng),
                    linear_new(arena, H, D, rng)};
  Tensor x = cut(arena, B, D), h1 = cut(arena, B, H), st = cut(arena, B, 2 * L), z = cut(arena, B, L),
         h2 = cut(arena, B, H), rec = cut(arena, B, D);
  float *eps = arena.take(B * L), *out = arena.take(2 * B);
  printf("arena: %zu of %zu bytes\n", arena.used, arena.cap);
  int t = 0;
  for (int e = 0; e < epochs; e++) {
    float se = 0.f, kl = 0.f;
    for (int s = 0; s < N; s += B) {
      for (float &f : noise) f = normal(rng);
      CUDA_TRY(cudaMemcpy(x.v, &data[s * D], B * D * sizeof(float), cudaMemcpyHostToDevice));
      CUDA_TRY(cudaMemcpy(eps, noise.data(), B * L * sizeof(float), cudaMemcpyHostToDevice));
      fwd(net[0], x, h1);
      tanh_fwd<<<(h1.size() + 63) / 64, 64>>>(h1.v, h1.size());
      fwd(net[1], h1, st);
      sample_z<<<1, B * L>>>(st.v, eps, z.v, B, L);
      fwd(net[2], z, h2);
      tanh_fwd<<<(h2.size() + 63) / 64, 64>>>(h2.v, h2.size());
      fwd(net[3], h2, rec);
      elbo<<<1, B>>>(rec.v, rec.d, x.v, st.v, out, B, D, L);
      bwd(net[3], h2, rec);
      tanh_bwd<<<(h2.size() + 63) / 64, 64>>>(h2.v, h2.d, h2.size());
      bwd(net[2], z, h2);
      sample_z_bwd<<<1, B * L>>>(st.v, eps, z.d, st.d, B, L, beta);
      bwd(net[1], h1, st);
      tanh_bwd<<<(h1.size() + 63) / 64, 64>>>(h1.v, h1.d, h1.size());
      bwd(net[0], x, h1);
      float bc1 = 1.f - std::pow(0.9f, ++t), bc2 = 1.f - std::pow(0.999f, t);
      for (Linear *l : net) {
        adam<<<(l->w.size() + 63) / 64, 64>>>(l->w.v, l->w.d, l->mw, l->vw, l->w.size(), lr, bc1, bc2);
        adam<<<1, 64>>>(l->b.v, l->b.d, l->mb, l->vb, l->b.size(), lr, bc1, bc2);
      }
      CUDA_TRY(cudaMemcpy(terms.data(), out, 2 * B * sizeof(float), cudaMemcpyDeviceToHost));
      for (int r = 0; r < B; r++) se += terms[2 * r], kl += terms[2 * r + 1];
    }
    if (e % 2 == 1 || e == 0)
      printf("epoch %2d  loss %.4f  (rec %.4f, kl %.4f)\n", e + 1, (se + beta * kl) / N, se / N, kl / N);
  }
  FILE *f = fopen(argc > 1 ? argv[1] : "weights.bin", "wb");
  if (!f) return 1;
  for (Linear *l : net) {
    for (Tensor *p : {&l->w, &l->b}) {
      std::vector<float> h(p->size());
      CUDA_TRY(cudaMemcpy(h.data(), p->v, h.size() * sizeof(float), cudaMemcpyDeviceToHost));
      fwrite(h.data(), sizeof(float), h.size(), f);
    }
    delete l;
  }
  fclose(f);
  return 0;
}
