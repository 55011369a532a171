#include "mlpkit/layer.hpp"

namespace mlpkit {

namespace {

__global__ void tanh_forward(const float* __restrict__ x, float* __restrict__ y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tanhf(x[i]);
}

__global__ void tanh_backward(const float* __restrict__ y, const float* __restrict__ dy,
                              float* __restrict__ dx, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}

constexpr int kThreads = 256;

}  // namespace

const Tensor& Tanh::forward(const Tensor& input) {
  output_.resize(input.rows(), input.cols());
  int n = static_cast<int>(input.size());
  tanh_forward<<<div_up(n, kThreads), kThreads>>>(input.data(), output_.data(), n);
  MLPKIT_CHECK_LAUNCH();
  return output_;
}

const Tensor& Tanh::backward(const Tensor& grad_output) {
  grad_input_.resize(grad_output.rows(), grad_output.cols());
  int n = static_cast<int>(grad_output.size());
  tanh_backward<<<div_up(n, kThreads), kThreads>>>(output_.data(), grad_output.data(),
                                                   grad_input_.data(), n);
  MLPKIT_CHECK_LAUNCH();
  return grad_input_;
}

}  // namespace mlpkit
