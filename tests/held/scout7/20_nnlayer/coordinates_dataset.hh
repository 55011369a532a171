#pragma once
#include <cstdlib>
#include <vector>
#include "nn_utils/matrix.hh"

class CoordinatesDataset {
    size_t batch_size;
    size_t number_of_batches;
    std::vector<Matrix> batches;
    std::vector<Matrix> targets;

public:
    CoordinatesDataset(size_t batch_size, size_t number_of_batches) : batch_size(batch_size), number_of_batches(number_of_batches)
    {
        for (size_t i = 0; i < number_of_batches; i++) {
            batches.push_back(Matrix(Shape(batch_size, 2)));
            targets.push_back(Matrix(Shape(batch_size, 1)));
            batches[i].allocateMemory();
            targets[i].allocateMemory();
            for (size_t k = 0; k < batch_size; k++) {
                batches[i][k * 2] = static_cast<float>(rand()) / RAND_MAX - 0.5f;
                batches[i][k * 2 + 1] = static_cast<float>(rand()) / RAND_MAX - 0.5f;
                targets[i][k] = (batches[i][k * 2] > 0) != (batches[i][k * 2 + 1] > 0) ? 1.f : 0.f;
            }
            batches[i].copyHostToDevice();
            targets[i].copyHostToDevice();
        }
    }
    size_t getNumOfBatches() { return number_of_batches; }
    std::vector<Matrix> &getBatches() { return batches; }
    std::vector<Matrix> &getTargets() { return targets; }
};
