#include "layers.hh"

NeuralNetwork::NeuralNetwork(float learning_rate) : learning_rate(learning_rate) {}
NeuralNetwork::~NeuralNetwork() {
    for (auto layer : layers) delete layer;
}
void NeuralNetwork::addLayer(NNLayer* layer) { layers.push_back(layer); }
Matrix NeuralNetwork::forward(Matrix X) {
    Matrix Z = X;
    for (auto layer : layers) Z = layer->forward(Z);
    Y = Z;
    return Y;
}
void NeuralNetwork::backprop(Matrix predictions, Matrix target) {
    dY.allocateMemoryIfNotAllocated(predictions.shape);
    Matrix error = bce_cost.dCost(predictions, target, dY);
    for (auto it = layers.rbegin(); it != layers.rend(); it++) error = (*it)->backprop(error, learning_rate);
    cudaDeviceSynchronize();
}
