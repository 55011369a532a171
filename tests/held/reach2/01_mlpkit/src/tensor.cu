#include "mlpkit/tensor.hpp"

#include <utility>

namespace mlpkit {

Tensor::Tensor(int rows, int cols) : rows_(rows), cols_(cols) {
  MLPKIT_CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), size() * sizeof(float)));
  zero();
}

Tensor::~Tensor() {
  if (data_) cudaFree(data_);
}

Tensor::Tensor(Tensor&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      rows_(std::exchange(other.rows_, 0)),
      cols_(std::exchange(other.cols_, 0)) {}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this != &other) {
    std::swap(data_, other.data_);
    std::swap(rows_, other.rows_);
    std::swap(cols_, other.cols_);
  }
  return *this;
}

Tensor Tensor::from_host(const std::vector<float>& values, int rows, int cols) {
  Tensor t(rows, cols);
  t.upload(values);
  return t;
}

void Tensor::upload(const std::vector<float>& values) {
  if (values.size() != size()) throw std::invalid_argument("Tensor::upload: size mismatch");
  MLPKIT_CHECK(
      cudaMemcpy(data_, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
}

std::vector<float> Tensor::download() const {
  std::vector<float> out(size());
  MLPKIT_CHECK(cudaMemcpy(out.data(), data_, size() * sizeof(float), cudaMemcpyDeviceToHost));
  return out;
}

void Tensor::zero() { MLPKIT_CHECK(cudaMemset(data_, 0, size() * sizeof(float))); }

void Tensor::resize(int rows, int cols) {
  if (rows == rows_ && cols == cols_ && data_) return;
  *this = Tensor(rows, cols);
}

}  // namespace mlpkit
