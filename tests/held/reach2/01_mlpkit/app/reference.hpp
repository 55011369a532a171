#pragma once

#include <vector>

// Everything the host check needs to know; plain C++, no CUDA.
struct Problem {
  int samples = 192;
  std::vector<int> widths{2, 32, 32, 3};
  int steps = 40;
  double base_lr = 0.02;
  double beta1 = 0.9, beta2 = 0.99, eps = 1e-5, weight_decay = 1e-3;
  std::vector<float> x;                     // [samples, 2]
  std::vector<int> y;                       // [samples]
  std::vector<std::vector<float>> weights;  // W0 b0 W1 b1 ...
};

Problem make_spirals();
double learning_rate(const Problem& p, int step);

// Trains the same network on the host in double precision; returns the losses and
// leaves the final parameters in `weights`.
std::vector<double> train_reference(const Problem& p, std::vector<std::vector<double>>& weights);
