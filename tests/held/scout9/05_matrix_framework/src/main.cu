#include "activations.hh"
#include "dataset.hh"
#include "linear_layer.hh"
#include "neural_network.hh"
#include "nn_exception.hh"
#include <iostream>

float computeAccuracy(const Matrix &predictions, const Matrix &targets)
{
    int m = predictions.shape.x;
    int correct = 0;
    for (int i = 0; i < m; i++) {
        float prediction = predictions[i] > 0.5 ? 1 : 0;
        if (prediction == targets[i])
            correct++;
    }
    return static_cast<float>(correct) / m;
}

int main()
{
    srand(21);
    CoordinatesDataset dataset(100, 11);
    BCECost bce_cost;

    NeuralNetwork nn(0.4f);
    nn.addLayer(new LinearLayer("linear_1", Shape(2, 40)));
    nn.addLayer(new ReLUActivation("relu_1"));
    nn.addLayer(new LinearLayer("linear_2", Shape(40, 20)));
    nn.addLayer(new ReLUActivation("relu_2"));
    nn.addLayer(new LinearLayer("linear_3", Shape(20, 1)));
    nn.addLayer(new SigmoidActivation("sigmoid_output"));

    // network training; the last batch is kept for the test
    Matrix Y;
    for (int epoch = 0; epoch < 16; epoch++) {
        float cost = 0.0;
        for (int batch = 0; batch < dataset.getNumOfBatches() - 1; batch++) {
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
