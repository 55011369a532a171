#pragma once

#include <vector>

#include "mlpkit/layer.hpp"

namespace mlpkit {

struct AdamConfig {
  float beta1 = 0.9f;
  float beta2 = 0.99f;
  float eps = 1e-5f;
  float weight_decay = 1e-3f;
};

class Adam {
 public:
  Adam(std::vector<Param*> params, const AdamConfig& config);
  void step(float learning_rate);

 private:
  struct State {
    Tensor m;
    Tensor v;
  };
  std::vector<Param*> params_;
  std::vector<State> state_;
  AdamConfig config_;
  int t_ = 0;
};

}  // namespace mlpkit
