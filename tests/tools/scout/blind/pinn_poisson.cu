// Physics-informed network for u'' = f on [0, 1], u(0) = u(1) = 0, double precision.
// The second derivative is a central finite difference of the network itself.
// f = -pi^2 sin(pi x), so the solution is sin(pi x). Unified memory, Adam.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <vector>

using real = double;

constexpr int N = 14;                  // hidden width, two hidden layers
constexpr int W1 = 0, B1 = W1 + N, W2 = B1 + N, B2 = W2 + N * N, W3 = B2 + N, B3 = W3 + N, P = B3 + 1;
constexpr int BATCH = 32;
constexpr int ROWS = 3 * BATCH + 2;    // x - h, x, x + h for every point, then both ends
constexpr real STEP = 0.05;
constexpr real BOUNDARY_WEIGHT = 20.0;
constexpr real PI = 3.14159265358979323846;

template <typename T>
class Managed {
 public:
  explicit Managed(std::size_t n) : n_(n) {
    if (cudaMallocManaged(&p_, n * sizeof(T)) != cudaSuccess) {
      std::fprintf(stderr, "out of memory\n");
      std::exit(1);
    }
    std::fill(p_, p_ + n, T());
  }
  ~Managed() { cudaFree(p_); }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  T& operator[](std::size_t i) { return p_[i]; }
  T* data() { return p_; }
  std::size_t size() const { return n_; }

 private:
  T* p_ = nullptr;
  std::size_t n_;
};

void sync() {
  cudaError_t e = cudaDeviceSynchronize();
  if (e != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(e));
    std::exit(1);
  }
}

__device__ real row_x(const real* pts, int r) {
  if (r >= 3 * BATCH) return r == 3 * BATCH ? 0.0 : 1.0;
  return pts[r / 3] + STEP * (r % 3 - 1);
}

__global__ void forward(const real* th, const real* pts, real* a1, real* a2, real* u) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= ROWS) return;
  real x = row_x(pts, r), out = th[B3];
  for (int i = 0; i < N; ++i) a1[r * N + i] = tanh(th[W1 + i] * x + th[B1 + i]);
  for (int j = 0; j < N; ++j) {
    real z = th[B2 + j];
    for (int i = 0; i < N; ++i) z += a1[r * N + i] * th[W2 + i * N + j];
    real a = tanh(z);
    a2[r * N + j] = a;
    out += a * th[W3 + j];
  }
  u[r] = out;
}

// Loss terms and the gradient of the loss with respect to every network output.
__global__ void residual(const real* pts, const real* u, real* du, real* terms) {
  int i = threadIdx.x;
  if (i < BATCH) {
    real f = -PI * PI * sin(PI * pts[i]);
    real res = (u[3 * i] - 2.0 * u[3 * i + 1] + u[3 * i + 2]) / (STEP * STEP) - f;
    real d = 2.0 * res / BATCH / (STEP * STEP);
    terms[i] = res * res / BATCH;
    du[3 * i] = d;
    du[3 * i + 1] = -2.0 * d;
    du[3 * i + 2] = d;
  } else if (i < BATCH + 2) {
    int r = 3 * BATCH + i - BATCH;
    terms[i] = BOUNDARY_WEIGHT * u[r] * u[r];
    du[r] = 2.0 * BOUNDARY_WEIGHT * u[r];
  }
}

__global__ void deltas(const real* th, const real* a1, const real* a2, const real* du, real* d1, real* d2) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= ROWS) return;
  for (int j = 0; j < N; ++j) {
    real a = a2[r * N + j];
    d2[r * N + j] = du[r] * th[W3 + j] * (1.0 - a * a);
  }
  for (int i = 0; i < N; ++i) {
    real s = 0.0, a = a1[r * N + i];
    for (int j = 0; j < N; ++j) s += d2[r * N + j] * th[W2 + i * N + j];
    d1[r * N + i] = s * (1.0 - a * a);
  }
}

__global__ void gather(const real* pts, const real* a1, const real* a2, const real* du, const real* d1, const real* d2,
                       real* grad) {
  int k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= P) return;
  real s = 0.0;
  for (int r = 0; r < ROWS; ++r) {
    if (k < B1) s += d1[r * N + k] * row_x(pts, r);
    else if (k < W2) s += d1[r * N + k - B1];
    else if (k < B2) s += a1[r * N + (k - W2) / N] * d2[r * N + (k - W2) % N];
    else if (k < W3) s += d2[r * N + k - B2];
    else if (k < B3) s += du[r] * a2[r * N + k - W3];
    else s += du[r];
  }
  grad[k] = s;
}

__global__ void adam(real* th, const real* grad, real* m, real* v, real lr, real c1, real c2) {
  int k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= P) return;
  m[k] = 0.9 * m[k] + 0.1 * grad[k];
  v[k] = 0.999 * v[k] + 0.001 * grad[k] * grad[k];
  th[k] -= lr * (m[k] / c1) / (sqrt(v[k] / c2) + 1e-10);
}

int main(int argc, char** argv) {
  const int points = 128, epochs = 80;
  std::mt19937 rng(1729);
  auto uniform = [&rng] { return rng() / 4294967296.0; };

  std::vector<real> xs(points);
  for (int i = 0; i < points; ++i) xs[i] = STEP + (1.0 - 2.0 * STEP) * (i + 0.5) / points;
  for (int i = points - 1; i > 0; --i) std::swap(xs[i], xs[rng() % (i + 1)]);

  Managed<real> theta(P), grad(P), m(P), v(P);
  Managed<real> pts(BATCH), a1(ROWS * N), a2(ROWS * N), d1(ROWS * N), d2(ROWS * N), u(ROWS), du(ROWS), terms(BATCH + 2);
  for (int k = 0; k < P; ++k) {
    real span = k < W2 ? 3.0 : k < B2 ? 0.9 : k < W3 ? 0.1 : 0.5;
    theta[k] = span * (uniform() - 0.5);
  }

  const int grid_rows = (ROWS + 31) / 32, grid_params = (P + 31) / 32;
  real b1 = 1.0, b2 = 1.0;
  for (int e = 0; e < epochs; ++e) {
    real sum = 0.0, ends = 0.0;
    for (int s = 0; s < points; s += BATCH) {
      std::copy(xs.begin() + s, xs.begin() + s + BATCH, pts.data());
      forward<<<grid_rows, 32>>>(theta.data(), pts.data(), a1.data(), a2.data(), u.data());
      residual<<<1, 64>>>(pts.data(), u.data(), du.data(), terms.data());
      deltas<<<grid_rows, 32>>>(theta.data(), a1.data(), a2.data(), du.data(), d1.data(), d2.data());
      gather<<<grid_params, 32>>>(pts.data(), a1.data(), a2.data(), du.data(), d1.data(), d2.data(), grad.data());
      b1 *= 0.9;
      b2 *= 0.999;
      adam<<<grid_params, 32>>>(theta.data(), grad.data(), m.data(), v.data(), 0.01, 1.0 - b1, 1.0 - b2);
      sync();
      for (int i = 0; i < BATCH; ++i) sum += terms[i];
      ends += terms[BATCH] + terms[BATCH + 1];
    }
    if (e % 10 == 0 || e == epochs - 1)
      std::printf("epoch %3d  residual %.6f  boundary %.6f\n", e, sum / (points / BATCH), ends / (points / BATCH));
  }

  // Error against the exact solution on the last batch.
  forward<<<grid_rows, 32>>>(theta.data(), pts.data(), a1.data(), a2.data(), u.data());
  sync();
  real worst = 0.0;
  for (int i = 0; i < BATCH; ++i) worst = std::max(worst, std::fabs(u[3 * i + 1] - std::sin(PI * pts[i])));
  std::printf("largest error %.4f\n", worst);

  std::ofstream f(argc > 1 ? argv[1] : "weights.bin", std::ios::binary);
  f.write(reinterpret_cast<const char*>(theta.data()), theta.size() * sizeof(real));
  return f.good() ? 0 : 1;
}
