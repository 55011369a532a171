#pragma once
#include <vector>
#include "layers/nn_layer.hh"
#include "nn_utils/bce_cost.hh"

class NeuralNetwork {
private:
    std::vector<NNLayer *> layers;
    BCECost bce_cost;
    Matrix Y;
    Matrix dY;
    float learning_rate;

public:
    NeuralNetwork(float learning_rate = 0.01f) : learning_rate(learning_rate) {}
    ~NeuralNetwork();
    Matrix forward(Matrix X);
    void backprop(Matrix predictions, Matrix target);
    void addLayer(NNLayer *layer) { layers.push_back(layer); }
};
