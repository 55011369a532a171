#pragma once
#include "minidl/tensor.h"
#include <random>
#include <utility>

namespace minidl {

class Module {
public:
    virtual ~Module() = default;
    virtual Tensor forward(const Tensor& x) = 0;
    virtual Tensor backward(const Tensor& grad) = 0;
    virtual std::vector<ParameterPtr> parameters() { return {}; }
};

class Linear : public Module {
public:
    Linear(int in, int out, std::mt19937& rng);
    Tensor forward(const Tensor& x) override;
    Tensor backward(const Tensor& grad) override;
    std::vector<ParameterPtr> parameters() override { return {weight, bias}; }

    ParameterPtr weight, bias;

private:
    Tensor input_;
};

class LeakyReLU : public Module {
public:
    explicit LeakyReLU(float slope = 0.01f) : slope_(slope) {}
    Tensor forward(const Tensor& x) override;
    Tensor backward(const Tensor& grad) override;

private:
    float slope_;
    Tensor input_;
};

class Sequential : public Module {
public:
    template <typename M, typename... Args>
    Sequential& add(Args&&... args)
    {
        modules_.push_back(std::make_shared<M>(std::forward<Args>(args)...));
        return *this;
    }
    Tensor forward(const Tensor& x) override;
    Tensor backward(const Tensor& grad) override;
    std::vector<ParameterPtr> parameters() override;

private:
    std::vector<std::shared_ptr<Module>> modules_;
};

enum class Reduction { Mean, Sum };

class CrossEntropyLoss {
public:
    explicit CrossEntropyLoss(Reduction r = Reduction::Mean) : reduction_(r) {}
    float operator()(const Tensor& logits, const Tensor& one_hot);
    Tensor backward() const { return grad_; }

private:
    Reduction reduction_;
    Tensor grad_;
};

class Optimizer {
public:
    explicit Optimizer(std::vector<ParameterPtr> params) : params_(std::move(params)) {}
    virtual ~Optimizer() = default;
    virtual void step() = 0;
    void zero_grad();

protected:
    std::vector<ParameterPtr> params_;
};

class AdamW : public Optimizer {
public:
    AdamW(std::vector<ParameterPtr> params, float lr, float weight_decay = 0.01f);
    void step() override;
    float lr;

private:
    float weight_decay_;
    int t_ = 0;
    std::vector<Tensor> m_, v_;
};

}  // namespace minidl
