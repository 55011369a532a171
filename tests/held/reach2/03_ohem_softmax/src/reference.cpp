#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "problem.hpp"

Dataset make_blobs(const Config& cfg, unsigned seed) {
  std::mt19937 rng(seed);
  auto uniform = [&] { return (rng() + 0.5) / 4294967296.0; };
  auto normal = [&] {
    double r = std::sqrt(-2.0 * std::log(uniform()));
    return r * std::cos(6.283185307179586 * uniform());
  };
  std::vector<double> centre(cfg.classes * cfg.features);
  for (double& c : centre) c = 0.8 * normal();
  Dataset d;
  for (int i = 0; i < cfg.samples; ++i) {
    // Unbalanced on purpose: low classes are more frequent.
    int y = static_cast<int>(cfg.classes * std::pow(uniform(), 1.5));
    d.y.push_back(y);
    for (int f = 0; f < cfg.features; ++f)
      d.x.push_back(static_cast<float>(centre[y * cfg.features + f] + normal()));
  }
  return d;
}

History train_on_host(const Config& cfg, const Dataset& data) {
  using Real = double;
  const int N = cfg.samples, F = cfg.features, C = cfg.classes;
  std::vector<Real> w(C * F + C, 0), vel(w.size(), 0), grad(w.size());
  std::vector<int> count(C, 0);
  for (int i = 0; i < N; ++i) {
    ++count[data.y[i]];
    for (int f = 0; f < F; ++f) w[data.y[i] * F + f] += data.x[i * F + f];
  }
  for (int c = 0; c < C; ++c) {
    Real norm2 = 0;
    for (int f = 0; f < F; ++f) {
      Real mean = w[c * F + f] / std::max(count[c], 1);
      norm2 += mean * mean;
      w[c * F + f] = Real(cfg.init_scale) * mean;
    }
    w[C * F + c] = Real(-0.5) * Real(cfg.init_scale) * norm2;
  }

  History h;
  std::vector<Real> prob(N * C), loss(N);
  std::vector<int> order(N);
  for (int step = 0; step < cfg.steps; ++step) {
    h.correct = 0;
    for (int i = 0; i < N; ++i) {
      Real* p = &prob[i * C];
      for (int c = 0; c < C; ++c) {
        p[c] = w[C * F + c];
        for (int f = 0; f < F; ++f) p[c] += w[c * F + f] * Real(data.x[i * F + f]);
      }
      int arg = static_cast<int>(std::max_element(p, p + C) - p);
      h.correct += arg == data.y[i];
      Real top = p[arg], at_label = p[data.y[i]], sum = 0;
      for (int c = 0; c < C; ++c) sum += p[c] = std::exp(p[c] - top);
      for (int c = 0; c < C; ++c) p[c] /= sum;
      loss[i] = std::log(sum) + top - at_label;
    }
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return loss[a] > loss[b]; });
    Real hard = 0, total = 0;
    for (int k = 0; k < N; ++k) (k < cfg.hard ? hard : total) += loss[order[k]];
    h.hard_loss.push_back(hard / cfg.hard);
    h.coverage.push_back(hard / (hard + total));

    std::fill(grad.begin(), grad.end(), Real(0));
    for (int k = 0; k < cfg.hard; ++k) {
      const int i = order[k];
      for (int c = 0; c < C; ++c) {
        Real d = (prob[i * C + c] - Real(c == data.y[i])) / cfg.hard;
        for (int f = 0; f < F; ++f) grad[c * F + f] += d * Real(data.x[i * F + f]);
        grad[C * F + c] += d;
      }
    }
    for (size_t j = 0; j < w.size(); ++j) {
      vel[j] = Real(cfg.momentum) * vel[j] + grad[j] + Real(cfg.l2) * w[j];
      w[j] -= Real(cfg.learning_rate) * vel[j];
    }
  }
  h.weights.assign(w.begin(), w.end());
  return h;
}
