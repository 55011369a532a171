#pragma once

#include <cstddef>
#include <vector>

#include "mlpkit/common.hpp"

namespace mlpkit {

// Row-major matrix of floats that owns its device memory. Move-only.
class Tensor {
 public:
  Tensor() = default;
  Tensor(int rows, int cols);
  ~Tensor();

  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;

  static Tensor from_host(const std::vector<float>& values, int rows, int cols);

  void upload(const std::vector<float>& values);
  std::vector<float> download() const;
  void zero();
  // Reallocates only when the shape changes.
  void resize(int rows, int cols);

  float* data() { return data_; }
  const float* data() const { return data_; }
  int rows() const { return rows_; }
  int cols() const { return cols_; }
  std::size_t size() const { return static_cast<std::size_t>(rows_) * cols_; }

 private:
  float* data_ = nullptr;
  int rows_ = 0;
  int cols_ = 0;
};

}  // namespace mlpkit
