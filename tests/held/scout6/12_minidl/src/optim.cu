#include "minidl/nn.h"
#include <cmath>

namespace minidl {

__global__ static void adamw(float* p, const float* g, float* m, float* v, float lr, float wd, float bc1, float bc2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float gi = g[i];
        m[i] = 0.9f * m[i] + (1 - 0.9f) * gi;
        v[i] = 0.99f * v[i] + (1 - 0.99f) * gi * gi;
        p[i] -= lr * (m[i] / bc1 / (sqrtf(v[i] / bc2) + 1e-8f) + wd * p[i]);
    }
}

void Optimizer::zero_grad()
{
    for (auto& p : params_)
        p->grad.zero_();
}

AdamW::AdamW(std::vector<ParameterPtr> params, float lr, float weight_decay)
    : Optimizer(std::move(params)), lr(lr), weight_decay_(weight_decay)
{
    for (auto& p : params_) {
        m_.emplace_back(p->value.rows(), p->value.cols());
        v_.emplace_back(p->value.rows(), p->value.cols());
    }
}

void AdamW::step()
{
    ++t_;
    float bc1 = 1 - std::pow(0.9f, t_), bc2 = 1 - std::pow(0.99f, t_);
    for (size_t i = 0; i < params_.size(); ++i) {
        auto& p = *params_[i];
        int n = p.value.numel();
        adamw<<<div_up(n, 128), 128>>>(p.value.data(), p.grad.data(), m_[i].data(), v_[i].data(), lr, weight_decay_, bc1,
                                       bc2, n);
    }
}

}  // namespace minidl
