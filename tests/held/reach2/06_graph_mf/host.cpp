#include <cmath>
#include <random>

#include "mf.h"

Ratings make_ratings() {
  std::mt19937 rng(99);
  auto u = [&] { return rng() / 4294967296.0; };
  std::vector<double> a(kUsers * 3), b(kItems * 3);
  for (double& v : a) v = 2 * u() - 1;
  for (double& v : b) v = 2 * u() - 1;
  std::vector<float> table(kUsers * kItems);
  std::vector<bool> known(table.size());
  for (int i = 0; i < kUsers; ++i)
    for (int j = 0; j < kItems; ++j) {
      double s = 0.05 * (u() - 0.5);
      for (int k = 0; k < 3; ++k) s += a[i * 3 + k] * b[j * 3 + k];
      table[i * kItems + j] = static_cast<float>(s);
      known[i * kItems + j] = u() < 0.5;
    }
  Ratings r;
  auto fill = [&](Csr& c, int rows, int cols, int row_stride, int col_stride) {
    c.start.push_back(0);
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < cols; ++j) {
        int at = i * row_stride + j * col_stride;
        if (!known[at]) continue;
        c.other.push_back(j);
        c.value.push_back(table[at]);
      }
      c.start.push_back(static_cast<int>(c.other.size()));
    }
  };
  fill(r.by_user, kUsers, kItems, kItems, 1);
  fill(r.by_item, kItems, kUsers, 1, kItems);
  r.count = static_cast<int>(r.by_user.value.size());
  return r;
}

namespace {
using Vec = std::vector<double>;

double half_step(const Csr& c, int rows, const Vec& mine, const Vec& theirs, Vec& out) {
  double squares = 0;
  for (int i = 0; i < rows; ++i) {
    Vec g(kRank, 0.0);
    const int n = c.start[i + 1] - c.start[i];
    for (int e = c.start[i]; e < c.start[i + 1]; ++e) {
      const double* q = &theirs[c.other[e] * kRank];
      double err = -c.value[e];
      for (int k = 0; k < kRank; ++k) err += mine[i * kRank + k] * q[k];
      squares += err * err;
      for (int k = 0; k < kRank; ++k) g[k] += err * q[k];
    }
    for (int k = 0; k < kRank; ++k) {
      double w = mine[i * kRank + k];
      out[i * kRank + k] = w - kRate * (g[k] / (n > 0 ? n : 1) * 8 + kDecay * w);
    }
  }
  return squares;
}
}  // namespace

Run train_on_host(const Ratings& r, const Run& run) {
  Run out;
  Vec p(run.user0.begin(), run.user0.end()), q(run.item0.begin(), run.item0.end());
  Vec p2(p), q2(q);
  for (int step = 0; step < kSteps; ++step) {
    out.loss.push_back(half_step(r.by_user, kUsers, p, q, p2) / r.count);
    half_step(r.by_item, kItems, q, p, q2);
    p.swap(p2);
    q.swap(q2);
  }
  out.final_rmse = std::sqrt(half_step(r.by_user, kUsers, p, q, p2) / r.count);
  return out;
}
