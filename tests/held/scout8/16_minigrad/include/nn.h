#pragma once
#include "tensor.h"
#include <memory>
#include <vector>

namespace mg {
namespace nn {

class Module {
public:
    virtual ~Module() = default;
    virtual TensorPtr forward(const TensorPtr &x) = 0;
    virtual std::vector<TensorPtr> parameters() { return {}; }
};

class Linear : public Module {
public:
    Linear(int in, int out);
    TensorPtr forward(const TensorPtr &x) override { return add_bias(matmul(x, weight), bias); }
    std::vector<TensorPtr> parameters() override { return {weight, bias}; }
    TensorPtr weight, bias;
};

class ReLU : public Module {
public:
    TensorPtr forward(const TensorPtr &x) override { return relu(x); }
};

class Sequential : public Module {
    std::vector<std::shared_ptr<Module>> mods_;

public:
    template <class... M> explicit Sequential(std::shared_ptr<M>... m) : mods_{std::static_pointer_cast<Module>(m)...} {}
    TensorPtr forward(const TensorPtr &x) override
    {
        TensorPtr y = x;
        for (auto &m : mods_) y = m->forward(y);
        return y;
    }
    std::vector<TensorPtr> parameters() override
    {
        std::vector<TensorPtr> all;
        for (auto &m : mods_)
            for (auto &p : m->parameters()) all.push_back(p);
        return all;
    }
};
}

namespace optim {
class SGD {
    std::vector<TensorPtr> params_;
    std::vector<float *> velocity_;

public:
    float lr, momentum, weight_decay;
    SGD(std::vector<TensorPtr> params, float lr, float momentum = 0.f, float weight_decay = 0.f);
    ~SGD();
    void zero_grad();
    void step();
};
}
}
