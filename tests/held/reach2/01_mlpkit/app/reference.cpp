#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {
struct Lcg {
  std::uint64_t state;
  double uniform() {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<double>(state >> 11) / 9007199254740992.0;
  }
};
}  // namespace

Problem make_spirals() {
  Problem p;
  Lcg rng{42};
  const double pi = 3.14159265358979323846;
  for (int i = 0; i < p.samples; ++i) {
    int k = i % 3;
    double r = 0.1 + 0.9 * rng.uniform();
    double a = 2.5 * r + 2.0 * pi * k / 3.0 + 0.2 * (rng.uniform() - 0.5);
    p.x.push_back(static_cast<float>(r * std::cos(a)));
    p.x.push_back(static_cast<float>(r * std::sin(a)));
    p.y.push_back(k);
  }
  for (std::size_t l = 0; l + 1 < p.widths.size(); ++l) {
    int in = p.widths[l], out = p.widths[l + 1];
    double bound = std::sqrt(6.0 / (in + out));
    std::vector<float> w(in * out), b(out, 0.0f);
    for (float& v : w) v = static_cast<float>(bound * (2.0 * rng.uniform() - 1.0));
    p.weights.push_back(w);
    p.weights.push_back(b);
  }
  return p;
}

double learning_rate(const Problem& p, int step) {
  return p.base_lr * 0.5 * (1.0 + std::cos(3.14159265358979323846 * step / p.steps));
}

using Real = double;

std::vector<double> train_reference(const Problem& p, std::vector<std::vector<double>>& weights) {
  const int L = static_cast<int>(p.widths.size()) - 1;
  const int n = p.samples;
  std::vector<std::vector<Real>> w, m, v, g;
  for (auto& t : p.weights) {
    w.emplace_back(t.begin(), t.end());
    m.emplace_back(t.size(), Real(0));
    v.emplace_back(t.size(), Real(0));
    g.emplace_back(t.size(), Real(0));
  }
  std::vector<double> losses;
  std::vector<std::vector<Real>> act(L + 1);
  act[0].assign(p.x.begin(), p.x.end());
  for (int step = 0; step < p.steps; ++step) {
    for (int l = 0; l < L; ++l) {
      int in = p.widths[l], out = p.widths[l + 1];
      act[l + 1].assign(n * out, Real(0));
      for (int r = 0; r < n; ++r)
        for (int c = 0; c < out; ++c) {
          Real s = 0;
          for (int k = 0; k < in; ++k) s += act[l][r * in + k] * w[2 * l][k * out + c];
          s += w[2 * l + 1][c];
          act[l + 1][r * out + c] = l + 1 < L ? std::tanh(s) : s;
        }
    }
    int classes = p.widths[L];
    std::vector<Real> d(n * classes);
    Real loss = 0;
    for (int r = 0; r < n; ++r) {
      const Real* z = &act[L][r * classes];
      Real top = *std::max_element(z, z + classes), sum = 0;
      for (int c = 0; c < classes; ++c) sum += std::exp(z[c] - top);
      for (int c = 0; c < classes; ++c)
        d[r * classes + c] = (std::exp(z[c] - top) / sum - Real(c == p.y[r])) / n;
      loss += (std::log(sum) + top - z[p.y[r]]) / n;
    }
    losses.push_back(loss);
    for (int l = L - 1; l >= 0; --l) {
      int in = p.widths[l], out = p.widths[l + 1];
      std::fill(g[2 * l].begin(), g[2 * l].end(), Real(0));
      std::fill(g[2 * l + 1].begin(), g[2 * l + 1].end(), Real(0));
      std::vector<Real> dx(n * in, Real(0));
      for (int r = 0; r < n; ++r)
        for (int c = 0; c < out; ++c) {
          Real dz = d[r * out + c];
          g[2 * l + 1][c] += dz;
          for (int k = 0; k < in; ++k) {
            g[2 * l][k * out + c] += act[l][r * in + k] * dz;
            dx[r * in + k] += w[2 * l][k * out + c] * dz;
          }
        }
      if (l > 0)
        for (std::size_t i = 0; i < dx.size(); ++i) dx[i] *= 1 - act[l][i] * act[l][i];
      d.swap(dx);
    }
    Real lr = learning_rate(p, step);
    Real c1 = 1 - std::pow(p.beta1, step + 1), c2 = 1 - std::pow(p.beta2, step + 1);
    for (std::size_t t = 0; t < w.size(); ++t)
      for (std::size_t i = 0; i < w[t].size(); ++i) {
        Real gi = g[t][i];
        m[t][i] = Real(p.beta1) * m[t][i] + Real(1 - p.beta1) * gi;
        v[t][i] = Real(p.beta2) * v[t][i] + Real(1 - p.beta2) * gi * gi;
        Real u = (m[t][i] / c1) / (std::sqrt(v[t][i] / c2) + Real(p.eps));
        w[t][i] -= lr * (u + Real(p.weight_decay) * w[t][i]);
      }
  }
  weights.clear();
  for (auto& t : w) weights.emplace_back(t.begin(), t.end());
  return losses;
}
