#include "layers/layers.hh"
#include "util/nn_exception.hh"
#include <iostream>

// Points in 8 dimensions, inside or outside of a shell; all batches are put on the device at the start
class CoordinatesDataset {
    std::vector<Matrix> batches;
    std::vector<Matrix> targets;

public:
    CoordinatesDataset(size_t batch_size, size_t number_of_batches)
    {
        std::mt19937 gen(1337);
        std::uniform_real_distribution<float> dist(-1.0f, 1.0f);
        for (size_t i = 0; i < number_of_batches; i++) {
            batches.push_back(Matrix(Shape(batch_size, 8)));
            targets.push_back(Matrix(Shape(batch_size, 1)));
            batches[i].allocateMemory();
            targets[i].allocateMemory();
            for (size_t k = 0; k < batch_size; k++) {
                float r = 0;
                for (size_t f = 0; f < 8; f++) {
                    batches[i][f * batch_size + k] = dist(gen);
                    if (f < 3)
                        r += batches[i][f * batch_size + k] * batches[i][f * batch_size + k];
                }
                targets[i][k] = r < 0.9f ? 1 : 0;
            }
            batches[i].copyHostToDevice();
            targets[i].copyHostToDevice();
        }
    }
    int getNumOfBatches() { return batches.size(); }
    std::vector<Matrix> &getBatches() { return batches; }
    std::vector<Matrix> &getTargets() { return targets; }
};

int main()
{
    try {
        std::mt19937 gen(5);
        CoordinatesDataset dataset(100, 21);

        NeuralNetwork nn(0.5f);
        nn.addLayer(new LinearLayer("linear_1", Shape(8, 32), gen));
        nn.addLayer(new ReLUActivation("relu_1"));
        nn.addLayer(new LinearLayer("linear_2", Shape(32, 16), gen));
        nn.addLayer(new ReLUActivation("relu_2"));
        nn.addLayer(new LinearLayer("linear_3", Shape(16, 1), gen));
        nn.addLayer(new SigmoidActivation("sigmoid_output"));

        Matrix Y;
        for (int epoch = 0; epoch < 10; epoch++) {
            float cost = 0.0;
            // the last batch is for testing
            for (int batch = 0; batch < dataset.getNumOfBatches() - 1; batch++) {
                Y = nn.forward(dataset.getBatches().at(batch));
                nn.backprop(Y, dataset.getTargets().at(batch));
                cost += nn.cost().cost(Y, dataset.getTargets().at(batch));
            }
            if (epoch % 3 == 0)
                std::cout << "Epoch: " << epoch << ", loss (cost): " << cost / (dataset.getNumOfBatches() - 1) << std::endl;
        }

        Y = nn.forward(dataset.getBatches().back());
        Y.copyDeviceToHost();
        int correct = 0;
        for (size_t i = 0; i < Y.shape.x; i++)
            correct += (Y[i] > 0.5f ? 1 : 0) == dataset.getTargets().back()[i];
        std::cout << "Accuracy: " << (float)correct / Y.shape.x << std::endl;
    } catch (const NNException &e) {
        std::cerr << e.what() << std::endl;
        return 1;
    }
    return 0;
}
