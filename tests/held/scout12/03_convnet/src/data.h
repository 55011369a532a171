#pragma once
#include <vector>
struct Dataset {
    int count, size;
    std::vector<float> images;
    std::vector<int> labels;
    Dataset(int count, int size, unsigned seed);
};
