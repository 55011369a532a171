#include "nn/nn.h"

namespace nn {

__global__ void sgd_kernel(float *w, const float *g, float *v, int n, float lr, float momentum, float decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = momentum * v[i] + g[i] + decay * w[i];
    w[i] -= lr * v[i];
}

SGD::SGD(std::vector<Param> params, float rate, float momentum, float weight_decay)
    : lr(rate), params_(std::move(params)), momentum_(momentum), weight_decay_(weight_decay)
{
    for (auto &p : params_) velocity_.push_back(std::make_shared<Buffer>(p.data->count()));
}

void SGD::zero_grad()
{
    for (auto &p : params_) p.grad->fill_zero();
}

void SGD::step()
{
    for (size_t i = 0; i < params_.size(); i++) {
        auto &p = params_[i];
        int n = p.data->count();
        sgd_kernel<<<(n + 127) / 128, 128>>>(p.data->ptr(), p.grad->ptr(), velocity_[i]->ptr(), n, lr, momentum_,
                                             p.name == "bias" ? 0.f : weight_decay_);
    }
}

} // namespace nn
