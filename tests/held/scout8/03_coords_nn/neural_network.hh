#pragma once
#include <vector>
#include "bce_cost.hh"
#include "layers/nn_layer.hh"

class NeuralNetwork {
    std::vector<NNLayer *> layers;
    BCECost bce_cost;
    Matrix Y;
    Matrix dY;
    float learning_rate;

public:
    NeuralNetwork(float learning_rate = 0.01) : learning_rate(learning_rate) {}
    ~NeuralNetwork() { for (auto layer : layers) delete layer; }
    Matrix forward(Matrix X)
    {
        Matrix Z = X;
        for (auto layer : layers)
            Z = layer->forward(Z);
        Y = Z;
        return Y;
    }
    void backprop(Matrix predictions, Matrix target)
    {
        dY.allocateMemoryIfNotAllocated(predictions.shape);
        Matrix error = bce_cost.dCost(predictions, target, dY);
        for (auto it = layers.rbegin(); it != layers.rend(); it++)
            error = (*it)->backprop(error, learning_rate);
        cudaDeviceSynchronize();
    }
    void addLayer(NNLayer *layer) { layers.push_back(layer); }
};
