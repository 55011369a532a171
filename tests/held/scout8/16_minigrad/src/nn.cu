#include "nn.h"
#include <cmath>
#include <cuda_runtime.h>
#include <random>

namespace mg {
namespace nn {
Linear::Linear(int in, int out) : weight(std::make_shared<Tensor>(in, out, true)), bias(std::make_shared<Tensor>(1, out, true))
{
    static std::mt19937 gen(2718);
    float k = 1.0f / std::sqrt((float)in);
    std::uniform_real_distribution<float> u(-k, k);
    std::vector<float> w(in * out), b(out);
    for (auto &x : w) x = u(gen);
    for (auto &x : b) x = u(gen);
    weight->load(w.data());
    bias->load(b.data());
}
}

namespace optim {
static __global__ void sgd_kernel(float *p, const float *g, float *v, int n, float lr, float mu, float wd)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    float d = g[t] + wd * p[t];
    v[t] = mu * v[t] + d;
    p[t] -= lr * v[t];
}

SGD::SGD(std::vector<TensorPtr> params, float lr, float momentum, float weight_decay)
    : params_(std::move(params)), lr(lr), momentum(momentum), weight_decay(weight_decay)
{
    for (auto &p : params_) {
        float *v;
        cudaMalloc(&v, p->numel() * sizeof(float));
        cudaMemset(v, 0, p->numel() * sizeof(float));
        velocity_.push_back(v);
    }
}

SGD::~SGD()
{
    for (float *v : velocity_) cudaFree(v);
}

void SGD::zero_grad()
{
    for (auto &p : params_) p->zero_grad();
}

void SGD::step()
{
    for (size_t i = 0; i < params_.size(); ++i) {
        int n = params_[i]->numel();
        sgd_kernel<<<(n + 127) / 128, 128>>>(params_[i]->data(), params_[i]->grad(), velocity_[i], n, lr, momentum, weight_decay);
    }
}
}
}
