#include "nn/check.h"
#include "nn/nn.h"

namespace nn {

static __global__ void sgd_kernel(float *p, float *vel, const float *g, int n, float lr, float mu, float wd)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        vel[i] = mu * vel[i] + g[i] + wd * p[i];
        p[i] -= lr * vel[i];
    }
}

SGD::SGD(std::vector<TensorPtr> params, float lr, float momentum, float weight_decay)
    : params_(std::move(params)), lr_(lr), momentum_(momentum), weight_decay_(weight_decay)
{
    for (auto &p : params_)
        velocity_.push_back(make_tensor(p->shape()));
}
void SGD::zero_grad()
{
    for (auto &p : params_)
        p->zero_grad();
}
void SGD::step()
{
    for (std::size_t i = 0; i < params_.size(); ++i)
        sgd_kernel<<<grid(params_[i]->numel()), 128>>>(params_[i]->data(), velocity_[i]->data(), params_[i]->grad(),
                                                       static_cast<int>(params_[i]->numel()), lr_, momentum_, weight_decay_);
}

} // namespace nn
