#include "tensor.h"
#include <cuda_runtime.h>
#include <set>
#include <stdexcept>
#include <string>

#define CU(x)                                                                                               \
    do {                                                                                                    \
        cudaError_t e = (x);                                                                                \
        if (e != cudaSuccess) throw std::runtime_error(std::string(#x) + ": " + cudaGetErrorString(e));     \
    } while (0)

namespace mg {
namespace {
const int kThreads = 128;
int nb(int n) { return (n + kThreads - 1) / kThreads; }

// C (+)= op(A) op(B), m x n, inner dimension k
template <bool TA, bool TB, bool ACC> __global__ void gemm(const float *A, const float *B, float *C, int m, int n, int k)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= m * n) return;
    int r = t / n, c = t % n;
    float s = 0;
    for (int i = 0; i < k; ++i) s += (TA ? A[i * m + r] : A[r * k + i]) * (TB ? B[c * k + i] : B[i * n + c]);
    C[t] = ACC ? C[t] + s : s;
}
__global__ void bias_kernel(const float *a, const float *b, float *y, int rows, int cols)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < rows * cols) y[t] = a[t] + b[t % cols];
}
__global__ void accumulate(const float *src, float *dst, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) dst[t] += src[t];
}
__global__ void column_sums(const float *g, float *db, int rows, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    float s = 0;
    for (int r = 0; r < rows; ++r) s += g[r * cols + c];
    db[c] += s;
}
__global__ void relu_kernel(const float *a, float *y, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) y[t] = a[t] > 0 ? a[t] : 0;
}
__global__ void relu_back(const float *a, const float *g, float *da, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n && a[t] > 0) da[t] += g[t];
}
__global__ void softmax_ce(const float *z, const float *y, float *prob, float *loss, int rows, int cols)
{
    int r = threadIdx.x + blockIdx.x * blockDim.x;
    if (r >= rows) return;
    float mx = z[r * cols], sum = 0, l = 0;
    for (int c = 1; c < cols; ++c) mx = fmaxf(mx, z[r * cols + c]);
    for (int c = 0; c < cols; ++c) sum += expf(z[r * cols + c] - mx);
    for (int c = 0; c < cols; ++c) {
        prob[r * cols + c] = expf(z[r * cols + c] - mx) / sum;
        l -= y[r * cols + c] * (z[r * cols + c] - mx - logf(sum));
    }
    atomicAdd(loss, l / rows);
}
__global__ void softmax_ce_back(const float *prob, const float *y, const float *g, float *dz, int rows, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) dz[t] += *g * (prob[t] - y[t]) / rows;
}
__global__ void fill(float *p, float v, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) p[t] = v;
}
}

Tensor::Tensor(int rows, int cols, bool requires_grad) : rows_(rows), cols_(cols), requires_grad_(requires_grad)
{
    CU(cudaMalloc(&data_, numel() * sizeof(float)));
}

Tensor::~Tensor()
{
    cudaFree(data_);
    cudaFree(grad_);
}

float *Tensor::grad()
{
    if (!grad_) {
        CU(cudaMalloc(&grad_, numel() * sizeof(float)));
        CU(cudaMemset(grad_, 0, numel() * sizeof(float)));
    }
    return grad_;
}

void Tensor::zero_grad()
{
    if (grad_) CU(cudaMemset(grad_, 0, numel() * sizeof(float)));
}

void Tensor::load(const float *host) { CU(cudaMemcpy(data_, host, numel() * sizeof(float), cudaMemcpyHostToDevice)); }

std::vector<float> Tensor::numpy() const
{
    std::vector<float> h(numel());
    CU(cudaMemcpy(h.data(), data_, numel() * sizeof(float), cudaMemcpyDeviceToHost));
    return h;
}

float Tensor::item() const { return numpy().at(0); }

void Tensor::backward()
{
    std::vector<Tensor *> order;
    std::set<Tensor *> seen;
    std::function<void(Tensor *)> visit = [&](Tensor *t) {
        if (!seen.insert(t).second) return;
        for (auto &p : t->parents) visit(p.get());
        order.push_back(t);
    };
    visit(this);
    fill<<<nb(numel()), kThreads>>>(grad(), 1.0f, numel());
    for (auto it = order.rbegin(); it != order.rend(); ++it)
        if ((*it)->backward_fn) (*it)->backward_fn(**it);
}

TensorPtr matmul(const TensorPtr &a, const TensorPtr &b)
{
    int m = a->rows(), k = a->cols(), n = b->cols();
    auto y = std::make_shared<Tensor>(m, n, a->requires_grad() || b->requires_grad());
    gemm<false, false, false><<<nb(m * n), kThreads>>>(a->data(), b->data(), y->data(), m, n, k);
    y->parents = {a, b};
    y->backward_fn = [a, b, m, n, k](Tensor &self) {
        if (a->requires_grad()) gemm<false, true, true><<<nb(m * k), kThreads>>>(self.grad(), b->data(), a->grad(), m, k, n);
        if (b->requires_grad()) gemm<true, false, true><<<nb(k * n), kThreads>>>(a->data(), self.grad(), b->grad(), k, n, m);
    };
    return y;
}

TensorPtr add_bias(const TensorPtr &a, const TensorPtr &b)
{
    int r = a->rows(), c = a->cols();
    auto y = std::make_shared<Tensor>(r, c, true);
    bias_kernel<<<nb(r * c), kThreads>>>(a->data(), b->data(), y->data(), r, c);
    y->parents = {a, b};
    y->backward_fn = [a, b, r, c](Tensor &self) {
        accumulate<<<nb(r * c), kThreads>>>(self.grad(), a->grad(), r * c);
        column_sums<<<nb(c), kThreads>>>(self.grad(), b->grad(), r, c);
    };
    return y;
}

TensorPtr relu(const TensorPtr &a)
{
    auto y = std::make_shared<Tensor>(a->rows(), a->cols(), true);
    relu_kernel<<<nb(a->numel()), kThreads>>>(a->data(), y->data(), a->numel());
    y->parents = {a};
    y->backward_fn = [a](Tensor &self) { relu_back<<<nb(a->numel()), kThreads>>>(a->data(), self.grad(), a->grad(), a->numel()); };
    return y;
}

TensorPtr softmax_cross_entropy(const TensorPtr &z, const TensorPtr &onehot)
{
    int r = z->rows(), c = z->cols();
    auto loss = std::make_shared<Tensor>(1, 1, true);
    auto prob = std::make_shared<Tensor>(r, c);
    CU(cudaMemset(loss->data(), 0, sizeof(float)));
    softmax_ce<<<nb(r), kThreads>>>(z->data(), onehot->data(), prob->data(), loss->data(), r, c);
    loss->parents = {z};
    loss->backward_fn = [z, onehot, prob, r, c](Tensor &self) {
        softmax_ce_back<<<nb(r * c), kThreads>>>(prob->data(), onehot->data(), self.grad(), z->grad(), r, r * c);
    };
    return loss;
}
}
