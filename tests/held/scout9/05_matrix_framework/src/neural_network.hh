#pragma once
#include "bce_cost.hh"
#include "nn_layer.hh"
#include <vector>

class NeuralNetwork {
    std::vector<NNLayer *> layers;
    BCECost bce_cost;
    Matrix Y;
    Matrix dY;
    float learning_rate;

public:
    NeuralNetwork(float learning_rate = 0.01) : learning_rate(learning_rate) {}
    ~NeuralNetwork();
    Matrix forward(Matrix X);
    void backprop(Matrix predictions, Matrix target);
    void addLayer(NNLayer *layer) { layers.push_back(layer); }
};
