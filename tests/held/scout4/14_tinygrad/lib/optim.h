#pragma once
#include "tensor.h"

namespace tg {

class Module {
public:
    virtual ~Module() = default;
    virtual Tensor forward(const Tensor &x) = 0;
    virtual void parameters(std::vector<Tensor> &out) {}
};

class Linear : public Module {
public:
    Linear(int in, int out, unsigned seed);
    Tensor forward(const Tensor &x) override { return add_bias(matmul(x, weight), bias); }
    void parameters(std::vector<Tensor> &out) override
    {
        out.push_back(weight);
        out.push_back(bias);
    }

private:
    Tensor weight, bias;
};

class Gelu : public Module {
public:
    Tensor forward(const Tensor &x) override { return gelu(x); }
};

class Sequential : public Module {
public:
    Sequential(std::initializer_list<std::shared_ptr<Module>> list) : modules(list) {}
    Tensor forward(const Tensor &x) override
    {
        Tensor t = x;
        for (auto &m : modules)
            t = m->forward(t);
        return t;
    }
    void parameters(std::vector<Tensor> &out) override
    {
        for (auto &m : modules)
            m->parameters(out);
    }

private:
    std::vector<std::shared_ptr<Module>> modules;
};

class SGD {
public:
    SGD(std::vector<Tensor> params, float lr, float momentum = 0, float weight_decay = 0);
    void zero_grad();
    void step();
    float lr;

private:
    std::vector<Tensor> params_;
    std::vector<Tensor> velocity_;
    float momentum_, weight_decay_;
};

} // namespace tg
