// Host version of the network in double precision; plain C++.
#pragma once

#include <vector>

constexpr int kBatch = 32, kSide = 10, kClasses = 3, kSteps = 40;
constexpr int kC1 = 4, kC2 = 6;
constexpr double kLearningRate = 0.1, kMomentum = 0.75;

struct Task {
  std::vector<float> images;  // [kBatch, 1, kSide, kSide]
  std::vector<int> labels;
  std::vector<std::vector<float>> params;  // w1 b1 w2 b2 w3 b3
};

Task make_task();
std::vector<double> reference_losses(const Task& task);
