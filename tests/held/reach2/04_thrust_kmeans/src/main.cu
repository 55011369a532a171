// k-means and then logistic regression on radial features of the clusters, with Thrust.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kmeans.cuh"
#include "logistic.cuh"

namespace {

// Sums of 1500 floats are good to about 1e-5 of their value in any order. The clusters keep
// clear of each other, so no point changes its cluster by rounding once Lloyd has settled;
// before that, one point in 1500 may, which moves a mean by about 1e-3.
constexpr double kTolerance = 2e-3;

Result run_device(const Settings& s, const Data& d) {
  Result r;
  KMeans km(s, d);
  for (int step = 0; step < s.kmeans_steps; ++step) {
    r.inertia.push_back(km.step());
    if (step % 3 == 0) std::printf("k-means %2d  inertia %.6f\n", step, r.inertia.back());
  }
  thrust::host_vector<float> cx = km.cx(), cy = km.cy();
  for (int k = 0; k < s.clusters; ++k) {
    r.centroids.push_back(cx[k]);
    r.centroids.push_back(cy[k]);
  }
  r.counts.resize(s.clusters);
  thrust::copy(km.counts().begin(), km.counts().end(), r.counts.begin());

  LogisticRegression lr(s, d, km);
  for (int step = 0; step < s.train_steps; ++step) {
    r.loss.push_back(lr.step());
    if (step % 5 == 0 || step + 1 == s.train_steps)
      std::printf("train %2d  loss %.6f\n", step, r.loss.back());
  }
  thrust::host_vector<float> w = lr.weights();
  r.weights.assign(w.begin(), w.end());
  return r;
}

bool close(const char* what, const std::vector<double>& a, const std::vector<double>& b,
           double& worst) {
  bool ok = a.size() == b.size();
  double here = 0;
  for (size_t i = 0; ok && i < a.size(); ++i) {
    const double diff = std::fabs(a[i] - b[i]);
    if (!(diff <= kTolerance)) ok = false;
    here = std::max(here, diff);
  }
  std::printf("%-10s difference %.3g\n", what, here);
  worst = std::max(worst, here);
  return ok;
}

}  // namespace

int main() {
  const Settings settings;
  const Data data = make_data(settings);
  const Result got = run_device(settings, data);
  const Result want = run_host(settings, data);

  double worst = 0;
  bool ok = close("inertia", got.inertia, want.inertia, worst);
  ok = close("loss", got.loss, want.loss, worst) && ok;
  ok = close("centroids", got.centroids, want.centroids, worst) && ok;
  ok = close("weights", got.weights, want.weights, worst) && ok;
  if (got.counts != want.counts) {
    std::printf("cluster sizes differ\n");
    ok = false;
  }
  if (!(got.loss.back() < 0.7 * got.loss.front())) {
    std::printf("loss did not fall\n");
    ok = false;
  }
  std::printf("%s max difference %g\n", ok ? "OK" : "FAIL", worst);
  return ok ? 0 : 1;
}
