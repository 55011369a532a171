// Trains an MLP on three spirals with mlpkit and checks the run against the host.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>

#include "mlpkit/layer.hpp"
#include "mlpkit/optim.hpp"
#include "reference.hpp"

namespace {

// Adam divides by the root of the second moment, so rounding errors of single
// precision (6e-8 a sum) grow where a gradient is close to zero. The host's own float and
// double runs differ by less than 1e-6 here; sums in another order may cost 100 times that.
constexpr double kLossTolerance = 1e-4;
constexpr double kWeightTolerance = 1e-3;

int run() {
  Problem problem = make_spirals();

  mlpkit::Sequential model;
  for (std::size_t l = 0; l + 1 < problem.widths.size(); ++l) {
    model.add<mlpkit::Linear>(problem.widths[l], problem.widths[l + 1]);
    if (l + 2 < problem.widths.size()) model.add<mlpkit::Tanh>();
  }
  auto params = model.parameters();
  for (std::size_t i = 0; i < params.size(); ++i) params[i]->value.upload(problem.weights[i]);

  mlpkit::AdamConfig config;
  config.beta1 = static_cast<float>(problem.beta1);
  config.beta2 = static_cast<float>(problem.beta2);
  config.eps = static_cast<float>(problem.eps);
  config.weight_decay = static_cast<float>(problem.weight_decay);
  mlpkit::Adam optimizer(params, config);
  mlpkit::SoftmaxCrossEntropy criterion(problem.samples);
  criterion.set_labels(problem.y);
  mlpkit::Tensor x = mlpkit::Tensor::from_host(problem.x, problem.samples, problem.widths[0]);

  std::vector<double> losses;
  for (int step = 0; step < problem.steps; ++step) {
    const float loss = criterion.forward(model.forward(x));
    model.backward(criterion.grad());
    optimizer.step(static_cast<float>(learning_rate(problem, step)));
    losses.push_back(loss);
    if (step % 5 == 0 || step + 1 == problem.steps)
      std::printf("step %2d  loss %.5f  accuracy %.3f\n", step, loss,
                  static_cast<double>(criterion.correct()) / problem.samples);
  }
  MLPKIT_CHECK(cudaDeviceSynchronize());

  std::vector<std::vector<double>> expected;
  std::vector<double> expected_losses = train_reference(problem, expected);

  double loss_diff = 0.0, weight_diff = 0.0;
  bool ok = losses.back() < 0.7 * losses.front();
  for (std::size_t i = 0; i < losses.size(); ++i) {
    double d = std::fabs(losses[i] - expected_losses[i]);
    ok = ok && d <= kLossTolerance;
    loss_diff = std::max(loss_diff, d);
  }
  for (std::size_t t = 0; t < params.size(); ++t) {
    std::vector<float> w = params[t]->value.download();
    for (std::size_t i = 0; i < w.size(); ++i) {
      double d = std::fabs(w[i] - expected[t][i]);
      ok = ok && d <= kWeightTolerance;
      weight_diff = std::max(weight_diff, d);
    }
  }
  std::printf("loss difference %.3g, weight difference %.3g\n", loss_diff, weight_diff);
  if (!ok) {
    std::printf("FAIL max difference %g\n", std::max(loss_diff, weight_diff));
    return 1;
  }
  std::printf("OK max difference %g\n", std::max(loss_diff, weight_diff));
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
