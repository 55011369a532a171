#pragma once

#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/fill.h>
#include <thrust/for_each.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/tuple.h>

#include <cstdio>

#include "common.h"

using Point = thrust::tuple<float, float>;

struct NearestCentroid {
  const float* cx;
  const float* cy;
  int k;

  // (cluster, squared distance)
  __host__ __device__ thrust::tuple<int, float> operator()(const Point& p) const {
    const float x = thrust::get<0>(p), y = thrust::get<1>(p);
    int best = 0;
    float best_d = 3.0e38f;
    for (int j = 0; j < k; ++j) {
      const float dx = x - cx[j], dy = y - cy[j];
      const float dist = dx * dx + dy * dy;
      if (dist < best_d) {
        best_d = dist;
        best = j;
      }
    }
    return thrust::make_tuple(best, best_d);
  }
};

using Sum3 = thrust::tuple<float, float, int>;

struct AddSum3 {
  __host__ __device__ Sum3 operator()(const Sum3& a, const Sum3& b) const {
    return thrust::make_tuple(thrust::get<0>(a) + thrust::get<0>(b),
                              thrust::get<1>(a) + thrust::get<1>(b),
                              thrust::get<2>(a) + thrust::get<2>(b));
  }
};

// Writes the mean of a cluster's points at the cluster's place.
struct ScatterMean {
  float* cx;
  float* cy;
  int* counts;

  template <typename Tuple>
  __host__ __device__ void operator()(const Tuple& t) const {
    const int cluster = thrust::get<0>(t);
    const int count = thrust::get<3>(t);
    cx[cluster] = thrust::get<1>(t) / count;
    cy[cluster] = thrust::get<2>(t) / count;
    counts[cluster] = count;
  }
};

class KMeans {
 public:
  KMeans(const Settings& s, const Data& d)
      : k_(s.clusters),
        x_(d.x.begin(), d.x.end()),
        y_(d.y.begin(), d.y.end()),
        cx_(d.cx.begin(), d.cx.end()),
        cy_(d.cy.begin(), d.cy.end()),
        counts_(k_),
        label_(x_.size()),
        distance_(x_.size()),
        sorted_x_(x_.size()),
        sorted_y_(x_.size()),
        sum_label_(k_),
        sum_x_(k_),
        sum_y_(k_),
        sum_n_(k_) {}

  // One Lloyd iteration; returns the mean squared distance before the update.
  double step() {
    auto points = thrust::make_zip_iterator(thrust::make_tuple(x_.begin(), y_.begin()));
    const int n = static_cast<int>(x_.size());
    thrust::transform(points, points + n,
                      thrust::make_zip_iterator(
                          thrust::make_tuple(label_.begin(), distance_.begin())),
                      NearestCentroid{thrust::raw_pointer_cast(cx_.data()),
                                      thrust::raw_pointer_cast(cy_.data()), k_});
    const float total =
        thrust::reduce(distance_.begin(), distance_.end(), 0.0f, thrust::plus<float>());

    thrust::copy(x_.begin(), x_.end(), sorted_x_.begin());
    thrust::copy(y_.begin(), y_.end(), sorted_y_.begin());
    auto sorted = thrust::make_zip_iterator(thrust::make_tuple(sorted_x_.begin(),
                                                               sorted_y_.begin()));
    thrust::sort_by_key(label_.begin(), label_.end(), sorted);

    auto values = thrust::make_zip_iterator(thrust::make_tuple(
        sorted_x_.begin(), sorted_y_.begin(), thrust::constant_iterator<int>(1)));
    auto sums = thrust::make_zip_iterator(
        thrust::make_tuple(sum_x_.begin(), sum_y_.begin(), sum_n_.begin()));
    auto ends = thrust::reduce_by_key(label_.begin(), label_.end(), values, sum_label_.begin(),
                                      sums, thrust::equal_to<int>(), AddSum3());
    const int found = static_cast<int>(ends.first - sum_label_.begin());

    thrust::fill(counts_.begin(), counts_.end(), 0);
    auto rows = thrust::make_zip_iterator(
        thrust::make_tuple(sum_label_.begin(), sum_x_.begin(), sum_y_.begin(), sum_n_.begin()));
    thrust::for_each(rows, rows + found,
                     ScatterMean{thrust::raw_pointer_cast(cx_.data()),
                                 thrust::raw_pointer_cast(cy_.data()),
                                 thrust::raw_pointer_cast(counts_.data())});
    return total / n;
  }

  const thrust::device_vector<float>& x() const { return x_; }
  const thrust::device_vector<float>& y() const { return y_; }
  const thrust::device_vector<float>& cx() const { return cx_; }
  const thrust::device_vector<float>& cy() const { return cy_; }
  const thrust::device_vector<int>& counts() const { return counts_; }

 private:
  int k_;
  thrust::device_vector<float> x_, y_, cx_, cy_;
  thrust::device_vector<int> counts_, label_;
  thrust::device_vector<float> distance_, sorted_x_, sorted_y_;
  thrust::device_vector<int> sum_label_;
  thrust::device_vector<float> sum_x_, sum_y_;
  thrust::device_vector<int> sum_n_;
};
