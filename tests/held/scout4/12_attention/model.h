#pragma once
#include <string>
#include <unordered_map>
#include <vector>

struct Config {
  int vocab = 40;
  int seq_len = 12;
  int dim = 24;
  int classes = 4;
  int batch = 64;
  float lr = 3e-3f;
  int steps = 100;
};

struct Tensor {
  float *data = nullptr;
  int n = 0;
};

class AttentionClassifier {
 public:
  explicit AttentionClassifier(const Config &cfg);
  ~AttentionClassifier();

  // tokens: batch x seq_len, labels: batch, both on the host
  void forward(const std::vector<int> &tokens, const std::vector<int> &labels);
  void backward();
  void step();
  float loss() const;
  int correct() const;

 private:
  Tensor &P(const std::string &name) { return params_.at(name); }
  Tensor &G(const std::string &name) { return grads_.at(name); }
  Tensor &A(const std::string &name) { return acts_.at(name); }
  void add_param(const std::string &name, int n, float scale);

  Config cfg_;
  std::unordered_map<std::string, Tensor> params_, grads_, m_, v_, acts_;
  std::vector<std::string> names_;
  int *tokens_ = nullptr, *labels_ = nullptr, *correct_ = nullptr;
  int t_ = 0;
  unsigned seed_ = 12345;
};
