#pragma once
#include "nn_layer.hh"

class ReLUActivation : public NNLayer {
    Matrix A, Z, dZ;

public:
    ReLUActivation(std::string name) { this->name = name; }
    Matrix &forward(Matrix &Z);
    Matrix &backprop(Matrix &dA, float learning_rate = 0.01);
};

class SigmoidActivation : public NNLayer {
    Matrix A, Z, dZ;

public:
    SigmoidActivation(std::string name) { this->name = name; }
    Matrix &forward(Matrix &Z);
    Matrix &backprop(Matrix &dA, float learning_rate = 0.01);
};
