#include "nn/tensor.h"
#include "nn/check.h"

namespace nn {

Tensor::Tensor(std::vector<int> shape, bool requires_grad) : shape_(std::move(shape))
{
    NN_CHECK(cudaMalloc(&data_, numel() * sizeof(float)));
    NN_CHECK(cudaMemset(data_, 0, numel() * sizeof(float)));
    if (requires_grad) {
        NN_CHECK(cudaMalloc(&grad_, numel() * sizeof(float)));
        NN_CHECK(cudaMemset(grad_, 0, numel() * sizeof(float)));
    }
}
Tensor::~Tensor()
{
    cudaFree(data_);
    if (grad_)
        cudaFree(grad_);
}
std::size_t Tensor::numel() const
{
    std::size_t n = 1;
    for (int s : shape_)
        n *= s;
    return n;
}
void Tensor::from_host(const std::vector<float> &values)
{
    if (values.size() != numel())
        throw std::invalid_argument("from_host: size");
    NN_CHECK(cudaMemcpy(data_, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
}
std::vector<float> Tensor::to_host() const
{
    std::vector<float> values(numel());
    NN_CHECK(cudaMemcpy(values.data(), data_, values.size() * sizeof(float), cudaMemcpyDeviceToHost));
    return values;
}
void Tensor::zero_grad()
{
    if (grad_)
        NN_CHECK(cudaMemset(grad_, 0, numel() * sizeof(float)));
}

} // namespace nn
