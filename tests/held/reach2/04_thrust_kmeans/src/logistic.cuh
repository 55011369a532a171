#pragma once

#include <thrust/inner_product.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/transform_reduce.h>

#include "kmeans.cuh"

// Entry j of the feature matrix, stored feature by feature: [clusters + 1, points].
struct RadialFeature {
  const float* x;
  const float* y;
  const float* cx;
  const float* cy;
  int points, clusters;

  __host__ __device__ float operator()(int j) const {
    const int k = j / points, i = j % points;
    if (k == clusters) return 1.0f;  // bias
    const float dx = x[i] - cx[k], dy = y[i] - cy[k];
    return expf(-0.5f * (dx * dx + dy * dy));
  }
};

struct Logit {
  const float* phi;
  const float* w;
  int points, features;

  __host__ __device__ float operator()(int i) const {
    float z = 0.0f;
    for (int k = 0; k < features; ++k) z += w[k] * phi[k * points + i];
    return z;
  }
};

struct LogisticLoss {
  __host__ __device__ float operator()(const thrust::tuple<float, float>& t) const {
    const float z = thrust::get<0>(t), target = thrust::get<1>(t);
    return fmaxf(z, 0.0f) - z * target + log1pf(expf(-fabsf(z)));
  }
};

struct Residual {
  __host__ __device__ float operator()(float z, float target) const {
    return 1.0f / (1.0f + expf(-z)) - target;
  }
};

struct SgdStep {
  float rate, l2;
  __host__ __device__ float operator()(float w, float g) const { return w - rate * (g + l2 * w); }
};

class LogisticRegression {
 public:
  LogisticRegression(const Settings& s, const Data& d, const KMeans& km)
      : n_(s.points),
        features_(s.clusters + 1),
        rate_(s.learning_rate * s.clusters),
        l2_(s.l2),
        target_(d.target.begin(), d.target.end()),
        phi_(static_cast<size_t>(n_) * features_),
        z_(n_),
        residual_(n_),
        w_(features_, 0.0f),
        grad_(features_) {
    thrust::counting_iterator<int> index(0);
    thrust::transform(index, index + n_ * features_, phi_.begin(),
                      RadialFeature{thrust::raw_pointer_cast(km.x().data()),
                                    thrust::raw_pointer_cast(km.y().data()),
                                    thrust::raw_pointer_cast(km.cx().data()),
                                    thrust::raw_pointer_cast(km.cy().data()), n_, s.clusters});
  }

  double step() {
    auto logits = thrust::make_transform_iterator(
        thrust::counting_iterator<int>(0), Logit{thrust::raw_pointer_cast(phi_.data()),
                                                 thrust::raw_pointer_cast(w_.data()), n_,
                                                 features_});
    thrust::copy(logits, logits + n_, z_.begin());
    auto pairs = thrust::make_zip_iterator(thrust::make_tuple(z_.begin(), target_.begin()));
    const float loss = thrust::transform_reduce(pairs, pairs + n_, LogisticLoss(), 0.0f,
                                                thrust::plus<float>());
    thrust::transform(z_.begin(), z_.end(), target_.begin(), residual_.begin(), Residual());
    thrust::host_vector<float> grad(features_);
    for (int k = 0; k < features_; ++k)
      grad[k] = thrust::inner_product(residual_.begin(), residual_.end(),
                                      phi_.begin() + k * n_, 0.0f) / n_;
    grad_ = grad;
    thrust::transform(w_.begin(), w_.end(), grad_.begin(), w_.begin(), SgdStep{rate_, l2_});
    return loss / n_;
  }

  const thrust::device_vector<float>& weights() const { return w_; }

 private:
  int n_, features_;
  float rate_, l2_;
  thrust::device_vector<float> target_, phi_, z_, residual_, w_, grad_;
};
