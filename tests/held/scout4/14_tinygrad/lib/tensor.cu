#include "tensor.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <unordered_set>

namespace tg {

#define TG_CUDA(x)                                        \
    do {                                                  \
        cudaError_t err_ = (x);                           \
        if (err_ != cudaSuccess)                          \
            throw std::runtime_error(cudaGetErrorString(err_)); \
    } while (0)

static inline int blocks(int n) { return (n + 127) / 128; }

Node::Node(int rows, int cols, bool requires_grad) : rows_(rows), cols_(cols), requires_grad_(requires_grad)
{
    TG_CUDA(cudaMalloc((void **)&data_, size() * sizeof(float)));
}

Node::~Node()
{
    cudaFree(data_);
    if (grad_)
        cudaFree(grad_);
}

float *Node::grad()
{
    if (!grad_) {
        TG_CUDA(cudaMalloc((void **)&grad_, size() * sizeof(float)));
        TG_CUDA(cudaMemset(grad_, 0, size() * sizeof(float)));
    }
    return grad_;
}

void Node::zero_grad()
{
    if (grad_)
        TG_CUDA(cudaMemset(grad_, 0, size() * sizeof(float)));
}

void Node::from_host(const float *src)
{
    TG_CUDA(cudaMemcpy(data_, src, size() * sizeof(float), cudaMemcpyHostToDevice));
}

std::vector<float> Node::to_host() const
{
    std::vector<float> h(size());
    TG_CUDA(cudaMemcpy(h.data(), data_, size() * sizeof(float), cudaMemcpyDeviceToHost));
    return h;
}

float Node::item() const { return to_host().at(0); }

Tensor zeros(int rows, int cols, bool requires_grad)
{
    auto t = std::make_shared<Node>(rows, cols, requires_grad);
    TG_CUDA(cudaMemset(t->data(), 0, t->size() * sizeof(float)));
    return t;
}

Tensor uniform(int rows, int cols, float bound, unsigned seed, bool requires_grad)
{
    auto t = std::make_shared<Node>(rows, cols, requires_grad);
    std::mt19937 gen(seed);
    std::uniform_real_distribution<float> d(-bound, bound);
    std::vector<float> h(t->size());
    for (auto &x : h)
        x = d(gen);
    t->from_host(h.data());
    return t;
}

// C (m x n) += A' * B' with optional transposes; a(m, k) is A[m * ra + k * ca]
__global__ void gemm_acc(const float *A, int ra, int ca, const float *B, int rb, int cb, float *C, int m, int k, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m * n)
        return;
    int r = i / n, c = i % n;
    float s = 0;
    for (int j = 0; j < k; ++j)
        s += A[r * ra + j * ca] * B[j * rb + c * cb];
    C[i] += s;
}

__global__ void bias_forward(const float *x, const float *b, float *y, int n, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] + b[i % cols];
}

__global__ void bias_backward(const float *dy, float *db, int rows, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols)
        return;
    float s = 0;
    for (int r = 0; r < rows; ++r)
        s += dy[r * cols + c];
    db[c] += s;
}

__global__ void accumulate(float *dst, const float *src, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dst[i] += src[i];
}

__global__ void gelu_forward(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
}

__global__ void gelu_backward(const float *x, const float *dy, float *dx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float cdf = 0.5f * (1 + erff(x[i] * 0.70710678f));
        dx[i] += dy[i] * (cdf + x[i] * 0.39894228f * expf(-0.5f * x[i] * x[i]));
    }
}

__global__ void mse_forward(const float *p, const float *t, float *loss, int n)
{
    __shared__ float part[128];
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 128)
        s += (p[i] - t[i]) * (p[i] - t[i]);
    part[threadIdx.x] = s;
    __syncthreads();
    for (int h = 64; h > 0; h >>= 1) {
        if (threadIdx.x < h)
            part[threadIdx.x] += part[threadIdx.x + h];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *loss = part[0] / n;
}

__global__ void mse_backward(const float *p, const float *t, const float *dloss, float *dp, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dp[i] += *dloss * 2 * (p[i] - t[i]) / n;
}

Tensor matmul(const Tensor &a, const Tensor &b)
{
    int m = a->rows(), k = a->cols(), n = b->cols();
    if (b->rows() != k)
        throw std::invalid_argument("matmul: shapes");
    auto y = zeros(m, n, a->requires_grad() || b->requires_grad());
    gemm_acc<<<blocks(m * n), 128>>>(a->data(), k, 1, b->data(), n, 1, y->data(), m, k, n);
    y->parents = {a, b};
    Node *py = y.get();
    y->backward_fn = [a, b, py, m, k, n] {
        if (a->requires_grad())
            gemm_acc<<<blocks(m * k), 128>>>(py->grad(), n, 1, b->data(), 1, n, a->grad(), m, n, k);
        if (b->requires_grad())
            gemm_acc<<<blocks(k * n), 128>>>(a->data(), 1, k, py->grad(), n, 1, b->grad(), k, m, n);
    };
    return y;
}

Tensor add_bias(const Tensor &x, const Tensor &b)
{
    int rows = x->rows(), cols = x->cols();
    auto y = std::make_shared<Node>(rows, cols, true);
    bias_forward<<<blocks(rows * cols), 128>>>(x->data(), b->data(), y->data(), rows * cols, cols);
    y->parents = {x, b};
    Node *py = y.get();
    y->backward_fn = [x, b, py, rows, cols] {
        if (x->requires_grad())
            accumulate<<<blocks(rows * cols), 128>>>(x->grad(), py->grad(), rows * cols);
        if (b->requires_grad())
            bias_backward<<<blocks(cols), 128>>>(py->grad(), b->grad(), rows, cols);
    };
    return y;
}

Tensor gelu(const Tensor &x)
{
    auto y = std::make_shared<Node>(x->rows(), x->cols(), x->requires_grad());
    gelu_forward<<<blocks(x->size()), 128>>>(x->data(), y->data(), x->size());
    y->parents = {x};
    Node *py = y.get();
    y->backward_fn = [x, py] {
        if (x->requires_grad())
            gelu_backward<<<blocks(x->size()), 128>>>(x->data(), py->grad(), x->grad(), x->size());
    };
    return y;
}

Tensor mse_loss(const Tensor &pred, const Tensor &target)
{
    auto loss = std::make_shared<Node>(1, 1, true);
    mse_forward<<<1, 128>>>(pred->data(), target->data(), loss->data(), pred->size());
    loss->parents = {pred, target};
    Node *pl = loss.get();
    loss->backward_fn = [pred, target, pl] {
        mse_backward<<<blocks(pred->size()), 128>>>(pred->data(), target->data(), pl->grad(), pred->grad(),
                                                    pred->size());
    };
    return loss;
}

static void visit(const Tensor &t, std::unordered_set<Node *> &seen, std::vector<Node *> &order)
{
    if (!seen.insert(t.get()).second)
        return;
    for (auto &p : t->parents)
        visit(p, seen, order);
    order.push_back(t.get());
}

void backward(const Tensor &loss)
{
    std::unordered_set<Node *> seen;
    std::vector<Node *> order;
    visit(loss, seen, order);
    const float one = 1;
    TG_CUDA(cudaMemcpy(loss->grad(), &one, sizeof(one), cudaMemcpyHostToDevice));
    for (auto it = order.rbegin(); it != order.rend(); ++it)
        if ((*it)->backward_fn)
            (*it)->backward_fn();
}

} // namespace tg
