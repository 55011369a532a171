#include <cfloat>

#include "mlpkit/layer.hpp"

namespace mlpkit {

namespace {

// One thread per row: the number of classes is small.
__global__ void softmax_xent(const float* __restrict__ logits, const int* __restrict__ labels,
                             float* __restrict__ grad, float* __restrict__ loss,
                             int* __restrict__ correct, int rows, int cols) {
  __shared__ float block_loss;
  __shared__ int block_correct;
  if (threadIdx.x == 0) {
    block_loss = 0.0f;
    block_correct = 0;
  }
  __syncthreads();

  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    const float* z = logits + r * cols;
    const int label = labels[r];
    float top = -FLT_MAX;
    int arg = 0;
    for (int c = 0; c < cols; ++c) {
      if (z[c] > top) {
        top = z[c];
        arg = c;
      }
    }
    float sum = 0.0f;
    for (int c = 0; c < cols; ++c) sum += expf(z[c] - top);
    const float inv_rows = 1.0f / rows;
    for (int c = 0; c < cols; ++c) {
      float p = expf(z[c] - top) / sum;
      grad[r * cols + c] = (p - (c == label ? 1.0f : 0.0f)) * inv_rows;
    }
    atomicAdd(&block_loss, (logf(sum) + top - z[label]) * inv_rows);
    if (arg == label) atomicAdd(&block_correct, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(loss, block_loss);
    atomicAdd(correct, block_correct);
  }
}

}  // namespace

SoftmaxCrossEntropy::SoftmaxCrossEntropy(int max_rows) : max_rows_(max_rows), loss_(1, 1) {
  MLPKIT_CHECK(cudaMalloc(&labels_, max_rows * sizeof(int)));
  MLPKIT_CHECK(cudaMalloc(&correct_, sizeof(int)));
}

SoftmaxCrossEntropy::~SoftmaxCrossEntropy() {
  cudaFree(labels_);
  cudaFree(correct_);
}

void SoftmaxCrossEntropy::set_labels(const std::vector<int>& labels) {
  if (static_cast<int>(labels.size()) > max_rows_) throw std::invalid_argument("too many labels");
  MLPKIT_CHECK(
      cudaMemcpy(labels_, labels.data(), labels.size() * sizeof(int), cudaMemcpyHostToDevice));
}

float SoftmaxCrossEntropy::forward(const Tensor& logits) {
  grad_.resize(logits.rows(), logits.cols());
  loss_.zero();
  MLPKIT_CHECK(cudaMemset(correct_, 0, sizeof(int)));
  constexpr int threads = 128;
  softmax_xent<<<div_up(logits.rows(), threads), threads>>>(logits.data(), labels_, grad_.data(),
                                                            loss_.data(), correct_, logits.rows(),
                                                            logits.cols());
  MLPKIT_CHECK_LAUNCH();
  MLPKIT_CHECK(cudaMemcpy(&correct_host_, correct_, sizeof(int), cudaMemcpyDeviceToHost));
  return loss_.download()[0];
}

}  // namespace mlpkit
