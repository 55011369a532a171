#include "optim.h"

#include <cmath>

namespace tg {

Linear::Linear(int in, int out, unsigned seed)
    : weight(uniform(in, out, std::sqrt(3.0f / in), seed, true)), bias(zeros(1, out, true))
{
}

__global__ void sgd_momentum(float *w, const float *g, float *v, float lr, float mu, float wd, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        v[i] = mu * v[i] + g[i] + wd * w[i];
        w[i] -= lr * v[i];
    }
}

SGD::SGD(std::vector<Tensor> params, float lr_, float momentum, float weight_decay)
    : lr(lr_), params_(std::move(params)), momentum_(momentum), weight_decay_(weight_decay)
{
    for (auto &p : params_)
        velocity_.push_back(zeros(p->rows(), p->cols()));
}

void SGD::zero_grad()
{
    for (auto &p : params_)
        p->zero_grad();
}

void SGD::step()
{
    for (size_t k = 0; k < params_.size(); ++k) {
        Tensor &p = params_[k];
        if (!p->has_grad())
            continue;
        sgd_momentum<<<(p->size() + 127) / 128, 128>>>(p->data(), p->grad(), velocity_[k]->data(), lr, momentum_,
                                                       weight_decay_, p->size());
    }
}

} // namespace tg
