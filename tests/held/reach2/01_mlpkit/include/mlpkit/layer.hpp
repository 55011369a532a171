#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "mlpkit/tensor.hpp"

namespace mlpkit {

struct Param {
  Tensor value;
  Tensor grad;
};

class Layer {
 public:
  virtual ~Layer() = default;
  virtual const Tensor& forward(const Tensor& input) = 0;
  // Takes d(loss)/d(output), leaves gradients in its parameters and
  // returns d(loss)/d(input).
  virtual const Tensor& backward(const Tensor& grad_output) = 0;
  virtual std::vector<Param*> parameters() { return {}; }
};

class Linear final : public Layer {
 public:
  Linear(int in_features, int out_features);
  const Tensor& forward(const Tensor& input) override;
  const Tensor& backward(const Tensor& grad_output) override;
  std::vector<Param*> parameters() override { return {&weight_, &bias_}; }

 private:
  int in_;
  int out_;
  Param weight_;
  Param bias_;
  Tensor output_;
  Tensor grad_input_;
  const Tensor* input_ = nullptr;
};

class Tanh final : public Layer {
 public:
  const Tensor& forward(const Tensor& input) override;
  const Tensor& backward(const Tensor& grad_output) override;

 private:
  Tensor output_;
  Tensor grad_input_;
};

class Sequential final : public Layer {
 public:
  template <typename L, typename... Args>
  L& add(Args&&... args) {
    auto layer = std::make_unique<L>(std::forward<Args>(args)...);
    L& ref = *layer;
    layers_.push_back(std::move(layer));
    return ref;
  }

  const Tensor& forward(const Tensor& input) override {
    const Tensor* x = &input;
    for (auto& layer : layers_) x = &layer->forward(*x);
    return *x;
  }

  const Tensor& backward(const Tensor& grad_output) override {
    const Tensor* g = &grad_output;
    for (auto it = layers_.rbegin(); it != layers_.rend(); ++it) g = &(*it)->backward(*g);
    return *g;
  }

  std::vector<Param*> parameters() override {
    std::vector<Param*> all;
    for (auto& layer : layers_)
      for (Param* p : layer->parameters()) all.push_back(p);
    return all;
  }

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
};

// Mean softmax cross-entropy over the rows.
class SoftmaxCrossEntropy {
 public:
  explicit SoftmaxCrossEntropy(int max_rows);
  ~SoftmaxCrossEntropy();
  SoftmaxCrossEntropy(const SoftmaxCrossEntropy&) = delete;
  SoftmaxCrossEntropy& operator=(const SoftmaxCrossEntropy&) = delete;

  void set_labels(const std::vector<int>& labels);
  float forward(const Tensor& logits);
  const Tensor& grad() const { return grad_; }
  int correct() const { return correct_host_; }

 private:
  int* labels_ = nullptr;
  int* correct_ = nullptr;
  int max_rows_;
  int correct_host_ = 0;
  Tensor loss_;
  Tensor grad_;
};

}  // namespace mlpkit
