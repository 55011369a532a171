#include <cmath>
#include <utility>

#include "mlpkit/optim.hpp"

namespace mlpkit {

namespace {

struct AdamConstants {
  float beta1, beta2, eps, weight_decay;
};
__constant__ AdamConstants c_adam;

__global__ void adam_step(float* __restrict__ w, const float* __restrict__ g,
                          float* __restrict__ m, float* __restrict__ v, int n, float lr,
                          float correction1, float correction2) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    float gi = g[i];
    float mi = c_adam.beta1 * m[i] + (1.0f - c_adam.beta1) * gi;
    float vi = c_adam.beta2 * v[i] + (1.0f - c_adam.beta2) * gi * gi;
    m[i] = mi;
    v[i] = vi;
    float update = (mi / correction1) / (sqrtf(vi / correction2) + c_adam.eps);
    w[i] -= lr * (update + c_adam.weight_decay * w[i]);
  }
}

}  // namespace

Adam::Adam(std::vector<Param*> params, const AdamConfig& config)
    : params_(std::move(params)), config_(config) {
  state_.reserve(params_.size());
  for (Param* p : params_) {
    State s;
    s.m = Tensor(p->value.rows(), p->value.cols());
    s.v = Tensor(p->value.rows(), p->value.cols());
    state_.push_back(std::move(s));
  }
  const AdamConstants constants{config.beta1, config.beta2, config.eps, config.weight_decay};
  MLPKIT_CHECK(cudaMemcpyToSymbol(c_adam, &constants, sizeof(constants)));
}

void Adam::step(float learning_rate) {
  ++t_;
  const float c1 = 1.0f - std::pow(config_.beta1, static_cast<float>(t_));
  const float c2 = 1.0f - std::pow(config_.beta2, static_cast<float>(t_));
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const int n = static_cast<int>(params_[i]->value.size());
    adam_step<<<div_up(n, 128), 128>>>(params_[i]->value.data(), params_[i]->grad.data(),
                                       state_[i].m.data(), state_[i].v.data(), n, learning_rate,
                                       c1, c2);
    MLPKIT_CHECK_LAUNCH();
  }
}

}  // namespace mlpkit
