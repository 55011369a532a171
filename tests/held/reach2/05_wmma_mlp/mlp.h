#pragma once
#include <vector>

// Two-layer MLP; every size is a multiple of the 16x16x16 tensor core tile.
constexpr int kBatch = 64, kIn = 32, kHidden = 64, kOut = 16, kSteps = 40;
constexpr float kRate = 4.0f, kScale = 128.0f;  // learning rate, loss scale

struct Problem {
  std::vector<float> x, target, w1, w2;  // row-major
};

Problem make_problem();
std::vector<double> reference_losses(Problem p);
