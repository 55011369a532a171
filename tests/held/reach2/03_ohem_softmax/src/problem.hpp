// Data, constants and the host check. Plain C++.
#pragma once

#include <vector>

struct Config {
  int samples = 512;
  int features = 16;
  int classes = 10;
  int hard = 192;  // samples kept in each step (online hard example mining)
  int steps = 40;
  float learning_rate = 0.15f;
  float momentum = 0.8f;
  float l2 = 1e-3f;
  float init_scale = 0.05f;
};

struct Dataset {
  std::vector<float> x;  // [samples, features]
  std::vector<int> y;
};

struct History {
  std::vector<double> hard_loss;  // mean loss of the hard samples
  std::vector<double> coverage;   // their part of the total loss
  std::vector<double> weights;    // final [classes, features], then [classes]
  int correct = 0;
};

Dataset make_blobs(const Config& cfg, unsigned seed);
History train_on_host(const Config& cfg, const Dataset& data);
History train_on_device(const Config& cfg, const Dataset& data);
