#pragma once
#include "matrix.hh"
#include <vector>

class CoordinatesDataset {
    size_t batch_size;
    size_t number_of_batches;
    std::vector<Matrix> batches;
    std::vector<Matrix> targets;

public:
    CoordinatesDataset(size_t batch_size, size_t number_of_batches);
    int getNumOfBatches() { return number_of_batches; }
    std::vector<Matrix> &getBatches() { return batches; }
    std::vector<Matrix> &getTargets() { return targets; }
};
