#include "reference.h"

#include <cmath>
#include <cstdint>

namespace {

std::uint32_t g_state = 2463534242u;
double uniform() {  // xorshift32
  g_state ^= g_state << 13;
  g_state ^= g_state >> 17;
  g_state ^= g_state << 5;
  return g_state / 4294967296.0;
}

using Vec = std::vector<double>;

struct Conv {
  int c, h, w, oc, ks, oh, ow;
  Conv(int c_, int h_, int w_, int oc_, int ks_)
      : c(c_), h(h_), w(w_), oc(oc_), ks(ks_), oh(h_ - ks_ + 1), ow(w_ - ks_ + 1) {}

  template <typename F>
  void each(F f) const {  // f(output index, input index, weight index, output channel)
    for (int n = 0; n < kBatch; ++n)
      for (int o = 0; o < oc; ++o)
        for (int y = 0; y < oh; ++y)
          for (int x = 0; x < ow; ++x)
            for (int i = 0; i < c; ++i)
              for (int ky = 0; ky < ks; ++ky)
                for (int kx = 0; kx < ks; ++kx)
                  f(((n * oc + o) * oh + y) * ow + x,
                    ((n * c + i) * h + y + ky) * w + x + kx, ((o * c + i) * ks + ky) * ks + kx);
  }
  Vec forward(const Vec& x, const Vec& wt, const Vec& b) const {
    Vec y(kBatch * oc * oh * ow);
    for (size_t i = 0; i < y.size(); ++i) y[i] = b[i / (oh * ow) % oc];
    each([&](int o, int i, int k) { y[o] += x[i] * wt[k]; });
    return y;
  }
  Vec backward(const Vec& x, const Vec& wt, const Vec& dy, Vec& dw, Vec& db) const {
    Vec dx(x.size(), 0.0);
    dw.assign(wt.size(), 0.0);
    db.assign(oc, 0.0);
    for (size_t i = 0; i < dy.size(); ++i) db[i / (oh * ow) % oc] += dy[i];
    each([&](int o, int i, int k) {
      dw[k] += x[i] * dy[o];
      dx[i] += wt[k] * dy[o];
    });
    return dx;
  }
};

Vec leaky(const Vec& ref, Vec v) {
  for (size_t i = 0; i < v.size(); ++i)
    if (!(ref[i] > 0)) v[i] *= 0.125;
  return v;
}

}  // namespace

Task make_task() {
  Task t;
  for (int n = 0; n < kBatch; ++n) {
    int label = n % kClasses;  // 0: horizontal bar, 1: vertical bar, 2: diagonal
    int at = 2 + static_cast<int>(uniform() * (kSide - 4));
    for (int y = 0; y < kSide; ++y)
      for (int x = 0; x < kSide; ++x) {
        bool on = label == 0 ? y == at : label == 1 ? x == at : (x + y) % kSide == at;
        t.images.push_back(static_cast<float>((on ? 1.0 : 0.0) + 0.3 * (uniform() - 0.5)));
      }
    t.labels.push_back(label);
  }
  auto add = [&](int outs, int fan_in) {
    std::vector<float> w(outs * fan_in);
    double bound = std::sqrt(3.0 / fan_in);
    for (float& v : w) v = static_cast<float>(bound * (2 * uniform() - 1));
    t.params.push_back(w);
    t.params.emplace_back(outs, 0.0f);
  };
  add(kC1, 9);
  add(kC2, kC1 * 9);
  add(kClasses, kC2 * 4);
  return t;
}

std::vector<double> reference_losses(const Task& task) {
  std::vector<Vec> p, v, g(task.params.size());
  for (auto& t : task.params) {
    p.emplace_back(t.begin(), t.end());
    v.emplace_back(t.size(), 0.0);
  }
  const Vec x(task.images.begin(), task.images.end());
  const Conv conv1(1, kSide, kSide, kC1, 3), conv2(kC1, 4, 4, kC2, 3), dense(kC2 * 4, 1, 1, kClasses, 1);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    Vec a1 = conv1.forward(x, p[0], p[1]);  // 8x8
    Vec r1 = leaky(a1, a1);
    Vec q1(kBatch * kC1 * 16, 0.0);  // pooled to 4x4
    auto pooled = [](size_t i) { return (i / 64 * 4 + i / 16 % 4) * 4 + i % 8 / 2; };
    for (size_t i = 0; i < r1.size(); ++i) q1[pooled(i)] += 0.25 * r1[i];
    Vec a2 = conv2.forward(q1, p[2], p[3]);  // 2x2
    Vec r2 = leaky(a2, a2);
    Vec z = dense.forward(r2, p[4], p[5]);
    Vec dz(z.size());
    double loss = 0;
    for (int n = 0; n < kBatch; ++n) {
      double sum = 0;
      for (int k = 0; k < kClasses; ++k) sum += std::exp(z[n * kClasses + k]);
      for (int k = 0; k < kClasses; ++k)
        dz[n * kClasses + k] =
            (std::exp(z[n * kClasses + k]) / sum - (k == task.labels[n])) / kBatch;
      loss += (std::log(sum) - z[n * kClasses + task.labels[n]]) / kBatch;
    }
    losses.push_back(loss);
    Vec d = dense.backward(r2, p[4], dz, g[4], g[5]);
    d = conv2.backward(q1, p[2], leaky(a2, d), g[2], g[3]);
    Vec dr(r1.size());
    for (size_t i = 0; i < dr.size(); ++i) dr[i] = 0.25 * d[pooled(i)];
    conv1.backward(x, p[0], leaky(a1, dr), g[0], g[1]);
    for (size_t t = 0; t < p.size(); ++t)
      for (size_t i = 0; i < p[t].size(); ++i) {
        v[t][i] = kMomentum * v[t][i] + g[t][i];
        p[t][i] -= kLearningRate * v[t][i];
      }
  }
  return losses;
}
