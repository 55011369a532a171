// tinyconv: a small convolutional network, templated over its layers and element type.
// Trains it in float and in half (float master weights, loss scaling) and checks both.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "reference.h"
#include "tinyconv/layers.cuh"

using namespace tinyconv;

template <typename T>
using TinyNet = Net<T, Conv<1, kSide, kSide, kC1, 3>, LeakyRelu<kC1 * 8 * 8>, AvgPool<kC1, 8, 8>,
                    Conv<kC1, 4, 4, kC2, 3>, LeakyRelu<kC2 * 2 * 2>, Dense<kC2 * 4, kClasses>>;

template <typename T>
std::vector<double> train(const Task& task) {
  using E = Element<T>;
  TinyNet<T> net(kBatch);
  size_t index = 0;
  net.for_each_parameter([&](auto& p) { p.init(task.params[index++]); });

  std::vector<T> images(task.images.size());
  std::transform(task.images.begin(), task.images.end(), images.begin(),
                 [](float v) { return E::store(v); });
  DeviceBuffer<T> x(images.size());
  x.upload(images);
  DeviceBuffer<int> labels(kBatch);
  labels.upload(task.labels);
  DeviceBuffer<float> loss(1);

  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const T* logits = net.forward(x.get());
    CUDA_CHECK(cudaMemsetAsync(loss.get(), 0, sizeof(float)));
    softmax_loss<T, kClasses><<<blocks_for(kBatch, 32), 32>>>(
        logits, labels.get(), net.grad_output(), loss.get(), E::loss_scale, kBatch);
    CUDA_CHECK(cudaGetLastError());
    net.backward(x.get());
    net.for_each_parameter([](auto& p) {
      p.update(static_cast<float>(kLearningRate), static_cast<float>(kMomentum));
    });
    losses.push_back(loss.download()[0]);
    if (step % 10 == 0 || step == kSteps - 1)
      std::printf("[%s] step %2d  loss %.5f\n", E::name, step, losses.back());
  }
  return losses;
}

static bool compare(const char* name, const std::vector<double>& got,
                    const std::vector<double>& want, double tolerance, double& worst) {
  bool ok = got.back() < 0.7 * got.front();
  double here = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    double d = std::fabs(got[i] - want[i]);
    if (!(d <= tolerance)) ok = false;
    here = std::max(here, d);
  }
  std::printf("%s: max difference %.3g, tolerance %.3g\n", name, here, tolerance);
  worst = std::max(worst, here);
  return ok;
}

int main() {
  const Task task = make_task();
  const std::vector<double> want = reference_losses(task);
  double worst = 0;
  // float: 6e-8 an operation, sums of up to 2048 terms, 40 steps; __expf adds a few ulp.
  bool ok = compare("float", train<float>(task), want, 5e-4, worst);
  // half: each activation, gradient and working weight is rounded to 11 bits (5e-4); six
  // layers forth and back and 40 steps that partly average out.
  ok = compare("half", train<__half>(task), want, 2e-2, worst) && ok;
  if (!ok) {
    std::printf("FAIL max difference %g\n", worst);
    return 1;
  }
  std::printf("OK max difference %g\n", worst);
  return 0;
}
