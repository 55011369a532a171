#include <cmath>
#include <cstdio>
#include <ctime>
#include <iostream>
#include "coordinates_dataset.hh"
#include "layers/activations.hh"
#include "layers/linear_layer.hh"
#include "neural_network.hh"

float computeAccuracy(const Matrix &predictions, const Matrix &targets)
{
    int m = predictions.shape.x, correct = 0;
    for (int i = 0; i < m; i++) correct += (predictions[i] > 0.5f) == (targets[i] > 0.5f);
    return static_cast<float>(correct) / m;
}

int main()
{
    srand(9);
    CoordinatesDataset dataset(100, 11);
    BCECost bce_cost;

    NeuralNetwork nn(0.8f);
    nn.addLayer(new LinearLayer("linear_1", Shape(2, 30)));
    nn.addLayer(new ReLUActivation("relu_1"));
    nn.addLayer(new LinearLayer("linear_2", Shape(30, 16)));
    nn.addLayer(new ReLUActivation("relu_2"));
    nn.addLayer(new LinearLayer("linear_3", Shape(16, 1)));
    nn.addLayer(new SigmoidActivation("sigmoid_output"));

    Matrix Y;
    for (int epoch = 0; epoch < 19; epoch++) {
        float cost = 0.0;
        // the last batch is for testing
        for (size_t batch = 0; batch < dataset.getNumOfBatches() - 1; batch++) {
            Y = nn.forward(dataset.getBatches().at(batch));
            nn.backprop(Y, dataset.getTargets().at(batch));
            cost += bce_cost.cost(Y, dataset.getTargets().at(batch));
        }
        if (epoch % 3 == 0)
            std::cout << "Epoch: " << epoch << ", Cost: " << cost / (dataset.getNumOfBatches() - 1) << std::endl;
    }

    Y = nn.forward(dataset.getBatches().at(dataset.getNumOfBatches() - 1));
    Y.copyDeviceToHost();
    float accuracy = computeAccuracy(Y, dataset.getTargets().at(dataset.getNumOfBatches() - 1));
    std::cout << "Accuracy: " << accuracy << std::endl;
    return 0;
}
