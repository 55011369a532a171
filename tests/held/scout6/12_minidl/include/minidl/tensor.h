#pragma once
#include <cstddef>
#include <memory>
#include <vector>

namespace minidl {

/// A two-dimensional float tensor on the device. Copies share the storage.
class Tensor {
public:
    Tensor() = default;
    Tensor(int rows, int cols);
    static Tensor from_host(const std::vector<float>& values, int rows, int cols);

    int rows() const { return rows_; }
    int cols() const { return cols_; }
    int numel() const { return rows_ * cols_; }
    float* data() const { return storage_.get(); }
    bool defined() const { return static_cast<bool>(storage_); }

    void zero_();
    void copy_from(const float* host);
    std::vector<float> to_host() const;

private:
    std::shared_ptr<float> storage_;
    int rows_ = 0, cols_ = 0;
};

struct Parameter {
    Tensor value;
    Tensor grad;
    explicit Parameter(Tensor v) : value(v), grad(v.rows(), v.cols()) {}
};
using ParameterPtr = std::shared_ptr<Parameter>;

void cuda_check(int code, const char* file, int line);
#define MINIDL_CHECK(x) ::minidl::cuda_check(static_cast<int>(x), __FILE__, __LINE__)

inline int div_up(int a, int b) { return (a + b - 1) / b; }

}  // namespace minidl
