#pragma once

#include <vector>

struct Settings {
  int points = 1500;
  int clusters = 5;
  int kmeans_steps = 12;
  int train_steps = 30;
  float learning_rate = 0.5f;
  float l2 = 1e-3f;
};

struct Data {
  std::vector<float> x, y;    // coordinates
  std::vector<float> target;  // 0 or 1
  std::vector<float> cx, cy;  // initial centroids
};

struct Result {
  std::vector<double> inertia;      // mean squared distance in each k-means step
  std::vector<double> loss;         // logistic loss in each training step
  std::vector<double> centroids;    // x0 y0 x1 y1 ...
  std::vector<double> weights;      // clusters + 1
  std::vector<int> counts;          // points in each cluster
};

Data make_data(const Settings& s);
Result run_host(const Settings& s, const Data& d);
