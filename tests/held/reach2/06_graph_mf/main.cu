#include <algorithm>
#include <cmath>
#include <cstdio>

#include "mf.h"

int main() {
  const Ratings ratings = make_ratings();
  const Run got = train_on_device(ratings);
  const Run want = train_on_host(ratings, got);
  // About 1000 squared errors of order 0.1 to 1 are added in float in any order: 1e-5 or
  // better of the mean; the 40 steps are smooth and contract.
  const double tolerance = 2e-4;
  double worst = std::fabs(got.final_rmse - want.final_rmse);
  bool ok = worst <= tolerance && got.loss.back() < 0.5 * got.loss.front();
  for (int i = 0; i < kSteps; ++i) {
    const double d = std::fabs(got.loss[i] - want.loss[i]);
    ok = ok && d <= tolerance;
    worst = std::max(worst, d);
  }
  std::printf("%s max difference %g\n", ok ? "OK" : "FAIL", worst);
  return ok ? 0 : 1;
}
