#pragma once
#include <vector>

struct Dataset {
    int size, width;
    std::vector<float> images;
    std::vector<int> labels;
};

Dataset makeDigits(int n, int width, int classes, unsigned seed);
