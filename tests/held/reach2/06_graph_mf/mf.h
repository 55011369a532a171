// Matrix factorisation of a sparse rating table by full-batch gradient descent.
#pragma once
#include <vector>

constexpr int kUsers = 48, kItems = 40, kRank = 32, kSteps = 40;
constexpr float kRate = 0.08f, kDecay = 0.02f;

struct Csr {
  std::vector<int> start, other;
  std::vector<float> value;
};

struct Ratings {
  Csr by_user, by_item;
  int count = 0;
};

struct Run {
  std::vector<float> user0, item0;  // factors before training
  std::vector<double> loss;         // mean squared error before each step
  double final_rmse = 0;
};

Ratings make_ratings();
Run train_on_device(const Ratings& r);
// Starts from run.user0 and run.item0.
Run train_on_host(const Ratings& r, const Run& run);
