// A small autograd tensor on the GPU and a moons classifier trained with it.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <unordered_set>
#include <vector>

static void check(cudaError_t e) {
  if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e));
}

constexpr int kThreads = 64;
static int blocks(int n) { return (n + kThreads - 1) / kThreads; }

// c (+)= op(a) * op(b), where a is m x k and b is k x n after op.
__global__ void k_matmul(const float* a, const float* b, float* c, int m, int k, int n, bool ta, bool tb, bool acc) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m * n) return;
  int r = i / n, col = i % n;
  float s = acc ? c[i] : 0.f;
  for (int p = 0; p < k; ++p) s += (ta ? a[p * m + r] : a[r * k + p]) * (tb ? b[col * k + p] : b[p * n + col]);
  c[i] = s;
}
__global__ void k_add_row(const float* a, const float* b, float* c, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * cols) c[i] = a[i] + b[i % cols];
}
__global__ void k_axpy(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}
__global__ void k_sum_rows(float* gb, const float* g, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  float s = 0.f;
  for (int r = 0; r < rows; ++r) s += g[r * cols + c];
  gb[c] += s;
}
__global__ void k_tanh(const float* a, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = tanhf(a[i]);
}
__global__ void k_tanh_back(float* ga, const float* o, const float* go, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) ga[i] += go[i] * (1.f - o[i] * o[i]);
}
// Mean hinge loss max(0, 1 - y * s); one block.
__global__ void k_hinge(const float* s, const float* y, float* loss, int n) {
  __shared__ float buf[kThreads];
  float v = 0.f;
  for (int i = threadIdx.x; i < n; i += kThreads) v += fmaxf(0.f, 1.f - y[i] * s[i]);
  buf[threadIdx.x] = v;
  __syncthreads();
  for (int h = kThreads / 2; h > 0; h >>= 1) {
    if (threadIdx.x < h) buf[threadIdx.x] += buf[threadIdx.x + h];
    __syncthreads();
  }
  if (threadIdx.x == 0) *loss = buf[0] / n;
}
__global__ void k_hinge_back(float* gs, const float* s, const float* y, const float* gl, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && 1.f - y[i] * s[i] > 0.f) gs[i] -= gl[0] * y[i] / n;
}
__global__ void k_sgd(float* w, const float* g, float* v, float lr, float mu, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  v[i] = mu * v[i] - lr * g[i];
  w[i] += v[i];
}

class Node {
 public:
  Node(int r, int c) : rows(r), cols(c) {
    check(cudaMalloc(&data, size() * sizeof(float)));
    check(cudaMalloc(&grad, size() * sizeof(float)));
    zero_grad();
  }
  ~Node() {
    cudaFree(data);
    cudaFree(grad);
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  int size() const { return rows * cols; }
  void zero_grad() { check(cudaMemset(grad, 0, size() * sizeof(float))); }

  int rows, cols;
  float* data = nullptr;
  float* grad = nullptr;
  std::vector<std::shared_ptr<Node>> parents;
  std::function<void()> backward_fn;
};

class Tensor {
 public:
  Tensor(int r, int c) : n(std::make_shared<Node>(r, c)) {}
  Tensor(int r, int c, const float* host) : Tensor(r, c) {
    check(cudaMemcpy(n->data, host, n->size() * sizeof(float), cudaMemcpyHostToDevice));
  }
  std::vector<float> to_host() const {
    std::vector<float> h(n->size());
    check(cudaMemcpy(h.data(), n->data, h.size() * sizeof(float), cudaMemcpyDeviceToHost));
    return h;
  }
  void backward() {
    std::vector<Node*> order;
    std::unordered_set<Node*> seen;
    std::function<void(Node*)> visit = [&](Node* v) {
      if (!seen.insert(v).second) return;
      for (auto& p : v->parents) visit(p.get());
      order.push_back(v);
    };
    visit(n.get());
    const float one = 1.f;
    check(cudaMemcpy(n->grad, &one, sizeof one, cudaMemcpyHostToDevice));
    for (auto it = order.rbegin(); it != order.rend(); ++it)
      if ((*it)->backward_fn) (*it)->backward_fn();
  }
  std::shared_ptr<Node> n;
};

Tensor operator*(const Tensor& a, const Tensor& b) {
  Tensor out(a.n->rows, b.n->cols);
  Node *A = a.n.get(), *B = b.n.get(), *O = out.n.get();
  k_matmul<<<blocks(O->size()), kThreads>>>(A->data, B->data, O->data, A->rows, A->cols, B->cols, false, false, false);
  O->parents = {a.n, b.n};
  O->backward_fn = [A, B, O] {
    k_matmul<<<blocks(A->size()), kThreads>>>(O->grad, B->data, A->grad, A->rows, B->cols, A->cols, false, true, true);
    k_matmul<<<blocks(B->size()), kThreads>>>(A->data, O->grad, B->grad, A->cols, A->rows, B->cols, true, false, true);
  };
  return out;
}

Tensor operator+(const Tensor& a, const Tensor& b) {
  Tensor out(a.n->rows, a.n->cols);
  Node *A = a.n.get(), *B = b.n.get(), *O = out.n.get();
  k_add_row<<<blocks(O->size()), kThreads>>>(A->data, B->data, O->data, A->rows, A->cols);
  O->parents = {a.n, b.n};
  O->backward_fn = [A, B, O] {
    k_axpy<<<blocks(A->size()), kThreads>>>(A->grad, O->grad, A->size());
    k_sum_rows<<<1, kThreads>>>(B->grad, O->grad, O->rows, O->cols);
  };
  return out;
}

Tensor tanh(const Tensor& a) {
  Tensor out(a.n->rows, a.n->cols);
  Node *A = a.n.get(), *O = out.n.get();
  k_tanh<<<blocks(O->size()), kThreads>>>(A->data, O->data, O->size());
  O->parents = {a.n};
  O->backward_fn = [A, O] { k_tanh_back<<<blocks(A->size()), kThreads>>>(A->grad, O->data, O->grad, O->size()); };
  return out;
}

Tensor hinge(const Tensor& s, const Tensor& y) {
  Tensor out(1, 1);
  Node *S = s.n.get(), *Y = y.n.get(), *O = out.n.get();
  k_hinge<<<1, kThreads>>>(S->data, Y->data, O->data, S->size());
  O->parents = {s.n, y.n};
  O->backward_fn = [S, Y, O] {
    k_hinge_back<<<blocks(S->size()), kThreads>>>(S->grad, S->data, Y->data, O->grad, S->size());
  };
  return out;
}

struct MLP {
  std::vector<Tensor> params;
  MLP(const std::vector<int>& dims, std::mt19937& rng) {
    for (size_t l = 0; l + 1 < dims.size(); ++l) {
      float a = 1.f / std::sqrt((float)dims[l]);
      std::vector<float> w(dims[l] * dims[l + 1]), b(dims[l + 1], 0.f);
      for (auto& v : w) v = a * (2.f * (rng() >> 8) / 16777216.f - 1.f);
      params.emplace_back(dims[l], dims[l + 1], w.data());
      params.emplace_back(1, dims[l + 1], b.data());
    }
  }
  Tensor operator()(Tensor x) const {
    for (size_t i = 0; i < params.size(); i += 2) {
      x = x * params[i] + params[i + 1];
      if (i + 2 < params.size()) x = tanh(x);
    }
    return x;
  }
};

class SGD {
 public:
  SGD(std::vector<Tensor>& p, float lr, float mu) : params(p), lr(lr), mu(mu) {
    for (auto& t : params) {
      velocity.emplace_back(t.n->rows, t.n->cols);
      check(cudaMemset(velocity.back().n->data, 0, t.n->size() * sizeof(float)));
    }
  }
  void zero_grad() {
    for (auto& t : params) t.n->zero_grad();
  }
  void step() {
    for (size_t i = 0; i < params.size(); ++i) {
      Node* p = params[i].n.get();
      k_sgd<<<blocks(p->size()), kThreads>>>(p->data, p->grad, velocity[i].n->data, lr, mu, p->size());
    }
  }

 private:
  std::vector<Tensor>& params;
  std::vector<Tensor> velocity;
  float lr, mu;
};

int main(int argc, char** argv) {
  std::mt19937 rng(1337);
  auto uni = [&] { return (rng() >> 8) / 16777216.f; };
  const int N = 256, B = 32, epochs = 15;
  std::vector<float> X(2 * N), y(N);
  for (int i = 0; i < N; ++i) {
    bool top = uni() < 0.5f;
    float t = 3.14159265f * uni();
    X[2 * i] = (top ? std::cos(t) : 1.f - std::cos(t)) + 0.1f * (uni() - 0.5f);
    X[2 * i + 1] = (top ? std::sin(t) : 0.5f - std::sin(t)) + 0.1f * (uni() - 0.5f);
    y[i] = top ? 1.f : -1.f;
  }
  MLP model({2, 16, 16, 1}, rng);
  SGD opt(model.params, 0.1f, 0.9f);
  for (int e = 0; e < epochs; ++e) {
    float sum = 0.f;
    for (int s = 0; s < N; s += B) {
      Tensor xb(B, 2, &X[2 * s]), yb(B, 1, &y[s]);
      Tensor loss = hinge(model(xb), yb);
      opt.zero_grad();
      loss.backward();
      opt.step();
      sum += loss.to_host()[0];
    }
    if (e % 3 == 0 || e == epochs - 1) std::printf("epoch %2d loss %.5f\n", e, sum / (N / B));
  }
  std::ofstream out(argc > 1 ? argv[1] : "weights.bin", std::ios::binary);
  for (auto& p : model.params) {
    auto h = p.to_host();
    out.write(reinterpret_cast<const char*>(h.data()), h.size() * sizeof(float));
  }
  return out.good() ? 0 : 1;
}
