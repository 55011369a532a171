#pragma once
#include "nn/tensor.h"
#include <random>

namespace nn {

class Module {
public:
    virtual ~Module() = default;
    virtual TensorPtr forward(const TensorPtr &x) = 0;
    virtual void backward() = 0; // from output->grad to input->grad
    virtual std::vector<TensorPtr> parameters() { return {}; }
};

class Linear : public Module {
public:
    Linear(int in, int out, std::mt19937 &rng);
    TensorPtr forward(const TensorPtr &x) override;
    void backward() override;
    std::vector<TensorPtr> parameters() override { return {weight_, bias_}; }

private:
    TensorPtr weight_, bias_, x_, y_;
};

class ELU : public Module {
public:
    TensorPtr forward(const TensorPtr &x) override;
    void backward() override;

private:
    TensorPtr x_, y_;
};

class Sequential : public Module {
public:
    template <typename... M>
    explicit Sequential(M... m) : modules_{std::move(m)...} {}
    TensorPtr forward(const TensorPtr &x) override;
    void backward() override;
    std::vector<TensorPtr> parameters() override;

private:
    std::vector<std::shared_ptr<Module>> modules_;
};

class CrossEntropyLoss {
public:
    float forward(const TensorPtr &logits, const std::vector<int> &labels);
    void backward();
    ~CrossEntropyLoss();

private:
    TensorPtr logits_, nll_;
    int *labels_ = nullptr;
    std::size_t capacity_ = 0;
};

class SGD {
public:
    SGD(std::vector<TensorPtr> params, float lr, float momentum, float weight_decay);
    void zero_grad();
    void step();
    void set_lr(float lr) { lr_ = lr; }
    float lr() const { return lr_; }

private:
    std::vector<TensorPtr> params_, velocity_;
    float lr_, momentum_, weight_decay_;
};

} // namespace nn
