#pragma once
#include "nn_layer.hh"

class LinearLayer : public NNLayer {
private:
    Matrix W;
    Matrix b;
    Matrix Z;
    Matrix A;
    Matrix dA;
    void initializeBiasWithZeros();
    void initializeWeightsRandomly();

public:
    LinearLayer(std::string name, Shape W_shape);
    Matrix &forward(Matrix &A) override;
    Matrix &backprop(Matrix &dZ, float learning_rate = 0.01f) override;
};
