#pragma once
#include <string>
#include "../matrix.hh"

class NNLayer {
protected:
    std::string name;

public:
    virtual ~NNLayer() = default;
    virtual Matrix &forward(Matrix &A) = 0;
    virtual Matrix &backprop(Matrix &dZ, float learning_rate) = 0;
    std::string getName() { return name; }
};
