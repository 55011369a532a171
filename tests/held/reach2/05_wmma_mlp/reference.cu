#include <cuda_fp16.h>

#include <cmath>
#include <random>

#include "mlp.h"

namespace {
// Rounds as the device does before a product.
float h(float v) { return __half2float(__float2half(v)); }

void round_all(std::vector<float>& v) {
  for (float& f : v) f = h(f);
}
}  // namespace

Problem make_problem() {
  std::mt19937 rng(7);
  auto u = [&] { return static_cast<float>(rng() / 2147483648.0 - 1.0); };
  Problem p;
  p.x.resize(kBatch * kIn);
  p.target.resize(kBatch * kOut);
  p.w1.resize(kIn * kHidden);
  p.w2.resize(kHidden * kOut);
  std::vector<float> teacher(kIn * kOut);
  for (float& f : p.x) f = u();
  for (float& f : teacher) f = 0.4f * u();
  for (float& f : p.w1) f = 0.25f * u();
  for (float& f : p.w2) f = 0.2f * u();
  for (int n = 0; n < kBatch; ++n)
    for (int o = 0; o < kOut; ++o) {
      float s = 0;
      for (int i = 0; i < kIn; ++i) s += p.x[n * kIn + i] * teacher[i * kOut + o];
      p.target[n * kOut + o] = std::sin(s);
    }
  return p;
}

std::vector<double> reference_losses(Problem p) {
  round_all(p.x);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<float> w1 = p.w1, w2 = p.w2, act(kBatch * kHidden), dy(kBatch * kOut),
                       dh(kBatch * kHidden);
    round_all(w1);
    round_all(w2);
    double loss = 0;
    for (int n = 0; n < kBatch; ++n) {
      for (int j = 0; j < kHidden; ++j) {
        double s = 0;
        for (int i = 0; i < kIn; ++i) s += double(p.x[n * kIn + i]) * w1[i * kHidden + j];
        act[n * kHidden + j] = h(std::tanh(float(s)));
      }
      for (int o = 0; o < kOut; ++o) {
        double s = 0;
        for (int j = 0; j < kHidden; ++j) s += double(act[n * kHidden + j]) * w2[j * kOut + o];
        float e = float(s) - p.target[n * kOut + o];
        loss += double(e) * e / (kBatch * kOut);
        dy[n * kOut + o] = h(2.0f * e * kScale / (kBatch * kOut));
      }
      for (int j = 0; j < kHidden; ++j) {
        double s = 0;
        for (int o = 0; o < kOut; ++o) s += double(dy[n * kOut + o]) * w2[j * kOut + o];
        float a = act[n * kHidden + j];
        dh[n * kHidden + j] = h(float(s) * (1.0f - a * a));
      }
    }
    losses.push_back(loss);
    for (int j = 0; j < kHidden; ++j) {
      for (int o = 0; o < kOut; ++o) {
        double g = 0;
        for (int n = 0; n < kBatch; ++n) g += double(act[n * kHidden + j]) * dy[n * kOut + o];
        p.w2[j * kOut + o] -= kRate / kScale * float(g);
      }
      for (int i = 0; i < kIn; ++i) {
        double g = 0;
        for (int n = 0; n < kBatch; ++n) g += double(p.x[n * kIn + i]) * dh[n * kHidden + j];
        p.w1[i * kHidden + j] -= kRate / kScale * float(g);
      }
    }
  }
  return losses;
}
