#pragma once
#include "tensor.h"

class Adam {
public:
    Adam(std::vector<Parameter *> params, float lr, float b1 = 0.9f, float b2 = 0.999f)
        : params_(std::move(params)), lr_(lr), b1_(b1), b2_(b2) {}
    void step();

private:
    std::vector<Parameter *> params_;
    float lr_, b1_, b2_;
    int t_ = 0;
};
