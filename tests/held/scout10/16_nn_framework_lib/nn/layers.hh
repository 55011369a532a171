#pragma once
#include "matrix.hh"
#include <string>
#include <vector>

class NNLayer {
public:
    virtual ~NNLayer() = default;
    virtual Matrix& forward(Matrix& A) = 0;
    virtual Matrix& backprop(Matrix& dZ, float learning_rate) = 0;
};

class LinearLayer : public NNLayer {
    Matrix W, b, Z, A, dA;
    void initialize();
public:
    LinearLayer(Shape W_shape);
    Matrix& forward(Matrix& A) override;
    Matrix& backprop(Matrix& dZ, float learning_rate) override;
};

class ReLUActivation : public NNLayer {
    Matrix A, Z, dZ;
public:
    Matrix& forward(Matrix& Z) override;
    Matrix& backprop(Matrix& dA, float learning_rate) override;
};

class SigmoidActivation : public NNLayer {
    Matrix A, Z, dZ;
public:
    Matrix& forward(Matrix& Z) override;
    Matrix& backprop(Matrix& dA, float learning_rate) override;
};

class BCECost {
public:
    float cost(Matrix predictions, Matrix target);
    Matrix dCost(Matrix predictions, Matrix target, Matrix dY);
};

class NeuralNetwork {
    std::vector<NNLayer*> layers;
    BCECost bce_cost;
    Matrix Y, dY;
    float learning_rate;
public:
    explicit NeuralNetwork(float learning_rate = 0.1f);
    ~NeuralNetwork();
    Matrix forward(Matrix X);
    void backprop(Matrix predictions, Matrix target);
    void addLayer(NNLayer* layer);
};
