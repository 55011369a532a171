#pragma once
#include <cstddef>
#include <memory>
#include <vector>

namespace nn {

// Storage on the device with an optional gradient of the same shape.
class Tensor {
public:
    Tensor(std::vector<int> shape, bool requires_grad = false);
    ~Tensor();
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;

    float *data() const { return data_; }
    float *grad() const { return grad_; }
    const std::vector<int> &shape() const { return shape_; }
    std::size_t numel() const;
    void from_host(const std::vector<float> &values);
    std::vector<float> to_host() const;
    void zero_grad();

private:
    std::vector<int> shape_;
    float *data_ = nullptr, *grad_ = nullptr;
};

using TensorPtr = std::shared_ptr<Tensor>;
inline TensorPtr make_tensor(std::vector<int> shape, bool requires_grad = false)
{
    return std::make_shared<Tensor>(std::move(shape), requires_grad);
}

} // namespace nn
