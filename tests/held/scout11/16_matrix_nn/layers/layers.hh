#pragma once
#include "../util/matrix.hh"
#include <cmath>
#include <random>
#include <string>
#include <vector>

class NNLayer {
public:
    explicit NNLayer(std::string name) : name(name) {}
    virtual ~NNLayer() = default;
    // matrices are row major, one column per example: shape (examples, features)
    virtual Matrix &forward(Matrix &A) = 0;
    virtual Matrix &backprop(Matrix &dZ, float learning_rate) = 0;
    const std::string name;
};

class LinearLayer : public NNLayer {
    Matrix W, b, Z, A, dA;

public:
    LinearLayer(std::string name, Shape W_shape, std::mt19937 &gen);
    Matrix &forward(Matrix &A) override;
    Matrix &backprop(Matrix &dZ, float learning_rate) override;
};

class ReLUActivation : public NNLayer {
    Matrix A, Z, dZ;

public:
    explicit ReLUActivation(std::string name) : NNLayer(name) {}
    Matrix &forward(Matrix &Z) override;
    Matrix &backprop(Matrix &dA, float) override;
};

class SigmoidActivation : public NNLayer {
    Matrix A, Z, dZ;

public:
    explicit SigmoidActivation(std::string name) : NNLayer(name) {}
    Matrix &forward(Matrix &Z) override;
    Matrix &backprop(Matrix &dA, float) override;
};

class BCECost {
    Matrix total;

public:
    float cost(Matrix &predictions, Matrix &target);
    Matrix &dCost(Matrix &predictions, Matrix &target, Matrix &dY);
};

class NeuralNetwork {
    std::vector<NNLayer *> layers;
    BCECost bce_cost;
    Matrix Y, dY;
    float learning_rate;

public:
    explicit NeuralNetwork(float learning_rate) : learning_rate(learning_rate) {}
    ~NeuralNetwork();
    void addLayer(NNLayer *layer) { layers.push_back(layer); }
    Matrix forward(Matrix X);
    void backprop(Matrix predictions, Matrix target);
    BCECost &cost() { return bce_cost; }
};
