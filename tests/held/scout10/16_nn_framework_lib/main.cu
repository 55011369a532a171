// Classification of points: are they in quadrants 1 and 3?
#include "nn/layers.hh"
#include <cstdio>
#include <cstdlib>
#include <iostream>

class CoordinatesDataset {
    size_t batch_size, number_of_batches;
    std::vector<Matrix> batches, targets;
public:
    CoordinatesDataset(size_t batch_size, size_t number_of_batches) : batch_size(batch_size), number_of_batches(number_of_batches) {
        for (size_t i = 0; i < number_of_batches; i++) {
            batches.push_back(Matrix(Shape(2, batch_size)));
            targets.push_back(Matrix(Shape(1, batch_size)));
            batches[i].allocateMemory();
            targets[i].allocateMemory();
            for (size_t k = 0; k < batch_size; k++) {
                batches[i][2 * k] = (float)rand() / RAND_MAX - 0.5f;
                batches[i][2 * k + 1] = (float)rand() / RAND_MAX - 0.5f;
                targets[i][k] = (batches[i][2 * k] > 0) == (batches[i][2 * k + 1] > 0) ? 1 : 0;
            }
            batches[i].copyHostToDevice();
            targets[i].copyHostToDevice();
        }
    }
    size_t getNumOfBatches() const { return number_of_batches; }
    std::vector<Matrix>& getBatches() { return batches; }
    std::vector<Matrix>& getTargets() { return targets; }
};

float computeAccuracy(const Matrix& predictions, const Matrix& targets) {
    int m = predictions.shape.y, correct = 0;
    for (int i = 0; i < m; i++) correct += (predictions[i] > 0.5f) == (targets[i] > 0.5f);
    return static_cast<float>(correct) / m;
}

int main() {
    srand(8);
    CoordinatesDataset dataset(100, 11);
    BCECost bce_cost;
    NeuralNetwork nn(0.6f);
    nn.addLayer(new LinearLayer(Shape(2, 40)));
    nn.addLayer(new ReLUActivation());
    nn.addLayer(new LinearLayer(Shape(40, 10)));
    nn.addLayer(new ReLUActivation());
    nn.addLayer(new LinearLayer(Shape(10, 1)));
    nn.addLayer(new SigmoidActivation());

    // the last batch is the test set
    Matrix Y;
    for (int epoch = 0; epoch < 16; epoch++) {
        float cost = 0.0f;
        for (size_t batch = 0; batch < dataset.getNumOfBatches() - 1; batch++) {
            Y = nn.forward(dataset.getBatches().at(batch));
            nn.backprop(Y, dataset.getTargets().at(batch));
            cost += bce_cost.cost(Y, dataset.getTargets().at(batch));
        }
        if (epoch % 3 == 0)
            std::cout << "Epoch: " << epoch << ", loss: " << cost / (dataset.getNumOfBatches() - 1) << std::endl;
    }
    Y = nn.forward(dataset.getBatches().back());
    Y.copyDeviceToHost();
    std::cout << "Accuracy: " << computeAccuracy(Y, dataset.getTargets().back()) << std::endl;
    return 0;
}
