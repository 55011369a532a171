#include <cmath>
#include <cstdint>

#include "common.h"

namespace {
std::uint64_t state = 88172645463325252ull;
double uniform() {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state >> 11) / 9007199254740992.0;
}
}  // namespace

Data make_data(const Settings& s) {
  Data d;
  const double pi = 3.14159265358979323846;
  for (int i = 0; i < s.points; ++i) {
    int k = i % s.clusters;
    double r = 0.6 * std::sqrt(uniform()), a = 2 * pi * uniform();
    double x = 2.0 * std::cos(2 * pi * k / s.clusters) + r * std::cos(a);
    double y = 2.0 * std::sin(2 * pi * k / s.clusters) + r * std::sin(a);
    d.x.push_back(static_cast<float>(x));
    d.y.push_back(static_cast<float>(y));
    // Two of the clusters are positive; one label in 20 is wrong.
    bool positive = k == 1 || k == 3;
    d.target.push_back((uniform() < 0.05) != positive ? 1.0f : 0.0f);
  }
  for (int k = 0; k < s.clusters; ++k) {
    double a = 2 * pi * k / s.clusters + 0.35;
    d.cx.push_back(static_cast<float>(1.2 * std::cos(a)));
    d.cy.push_back(static_cast<float>(1.2 * std::sin(a)));
  }
  return d;
}

Result run_host(const Settings& s, const Data& d) {
  Result r;
  const int n = s.points, K = s.clusters;
  std::vector<double> cx(d.cx.begin(), d.cx.end()), cy(d.cy.begin(), d.cy.end());
  for (int step = 0; step < s.kmeans_steps; ++step) {
    std::vector<double> sx(K, 0), sy(K, 0);
    r.counts.assign(K, 0);
    double total = 0;
    for (int i = 0; i < n; ++i) {
      int best = 0;
      double best_d = 1e300;
      for (int k = 0; k < K; ++k) {
        double dx = d.x[i] - cx[k], dy = d.y[i] - cy[k], dist = dx * dx + dy * dy;
        if (dist < best_d) {
          best_d = dist;
          best = k;
        }
      }
      total += best_d;
      sx[best] += d.x[i];
      sy[best] += d.y[i];
      ++r.counts[best];
    }
    r.inertia.push_back(total / n);
    for (int k = 0; k < K; ++k)
      if (r.counts[k] > 0) {
        cx[k] = sx[k] / r.counts[k];
        cy[k] = sy[k] / r.counts[k];
      }
  }
  for (int k = 0; k < K; ++k) {
    r.centroids.push_back(cx[k]);
    r.centroids.push_back(cy[k]);
  }

  // Logistic regression on radial features of the centroids.
  std::vector<double> phi(n * (K + 1), 1.0), w(K + 1, 0.0);
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < K; ++k) {
      double dx = d.x[i] - cx[k], dy = d.y[i] - cy[k];
      phi[i * (K + 1) + k] = std::exp(-0.5 * (dx * dx + dy * dy));
    }
  for (int step = 0; step < s.train_steps; ++step) {
    std::vector<double> grad(K + 1, 0.0);
    double loss = 0;
    for (int i = 0; i < n; ++i) {
      double z = 0;
      for (int k = 0; k <= K; ++k) z += w[k] * phi[i * (K + 1) + k];
      loss += std::fmax(z, 0.0) - z * d.target[i] + std::log1p(std::exp(-std::fabs(z)));
      double residual = 1.0 / (1.0 + std::exp(-z)) - d.target[i];
      for (int k = 0; k <= K; ++k) grad[k] += residual * phi[i * (K + 1) + k];
    }
    r.loss.push_back(loss / n);
    for (int k = 0; k <= K; ++k) w[k] -= s.learning_rate * K * (grad[k] / n + s.l2 * w[k]);
  }
  r.weights = w;
  return r;
}
