#include "tensor.h"
#include <set>
#include <stdexcept>

namespace tt {

static void check(cudaError_t e)
{
    if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e));
}

Tensor::Tensor(int r, int c, bool g) : rows(r), cols(c), requiresGrad(g)
{
    check(cudaMalloc(&data, sizeof(float) * size()));
}

Tensor::~Tensor()
{
    cudaFree(data);
    if (grad) cudaFree(grad);
}

float *Tensor::gradient()
{
    if (!grad) {
        check(cudaMalloc(&grad, sizeof(float) * size()));
        check(cudaMemset(grad, 0, sizeof(float) * size()));
    }
    return grad;
}

void Tensor::zeroGrad()
{
    if (grad) check(cudaMemset(grad, 0, sizeof(float) * size()));
}

void Tensor::copyFromHost(const float *h) { check(cudaMemcpy(data, h, sizeof(float) * size(), cudaMemcpyHostToDevice)); }

std::vector<float> Tensor::toHost() const
{
    std::vector<float> h(size());
    check(cudaMemcpy(h.data(), data, sizeof(float) * size(), cudaMemcpyDeviceToHost));
    return h;
}

static void visit(Tensor *t, std::set<Tensor *> &seen, std::vector<Tensor *> &order)
{
    if (!seen.insert(t).second) return;
    for (auto &i : t->inputs) visit(i.get(), seen, order);
    order.push_back(t);
}

void Tensor::backward()
{
    std::set<Tensor *> seen;
    std::vector<Tensor *> order;
    visit(this, seen, order);
    const float one = 1.f;
    check(cudaMemcpy(gradient(), &one, sizeof(float), cudaMemcpyHostToDevice));
    for (auto it = order.rbegin(); it != order.rend(); ++it)
        if ((*it)->backwardFn) (*it)->backwardFn(**it);
}

TensorPtr make(int rows, int cols, bool requiresGrad) { return std::make_shared<Tensor>(rows, cols, requiresGrad); }

cublasHandle_t blas()
{
    static cublasHandle_t h = nullptr;
    if (!h) cublasCreate(&h);
    return h;
}

__global__ void sgdKernel(float *w, const float *g, float *v, float lr, float mu, bool nesterov, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = mu * v[i] + g[i];
    w[i] -= lr * (nesterov ? g[i] + mu * v[i] : v[i]);
}

SGD::SGD(std::vector<TensorPtr> p, float lr_, float m, bool n) : lr(lr_), params(std::move(p)), momentum(m), nesterov(n)
{
    for (auto &t : params) {
        float *v;
        check(cudaMalloc(&v, sizeof(float) * t->size()));
        check(cudaMemset(v, 0, sizeof(float) * t->size()));
        velocity.push_back(v);
    }
}

SGD::~SGD()
{
    for (float *v : velocity) cudaFree(v);
}

void SGD::step()
{
    for (size_t i = 0; i < params.size(); ++i) {
        int n = params[i]->size();
        sgdKernel<<<(n + 255) / 256, 256>>>(params[i]->data, params[i]->gradient(), velocity[i], lr, momentum, nesterov, n);
    }
}

void SGD::zeroGrad()
{
    for (auto &p : params) p->zeroGrad();
}

} // namespace tt
