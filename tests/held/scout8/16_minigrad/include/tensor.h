#pragma once
#include <functional>
#include <memory>
#include <vector>

namespace mg {

class Tensor;
using TensorPtr = std::shared_ptr<Tensor>;

// A 2D array on the GPU with an optional gradient and the function that propagates it to its parents.
class Tensor : public std::enable_shared_from_this<Tensor> {
public:
    Tensor(int rows, int cols, bool requires_grad = false);
    ~Tensor();
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;

    int rows() const { return rows_; }
    int cols() const { return cols_; }
    int numel() const { return rows_ * cols_; }
    float *data() const { return data_; }
    float *grad();
    bool requires_grad() const { return requires_grad_; }

    void load(const float *host);
    std::vector<float> numpy() const;
    float item() const;
    void zero_grad();
    void backward();

    std::vector<TensorPtr> parents;
    std::function<void(Tensor &)> backward_fn;

private:
    int rows_, cols_;
    bool requires_grad_;
    float *data_ = nullptr;
    float *grad_ = nullptr;
};

TensorPtr matmul(const TensorPtr &a, const TensorPtr &b);
TensorPtr add_bias(const TensorPtr &a, const TensorPtr &b);
TensorPtr relu(const TensorPtr &a);
TensorPtr softmax_cross_entropy(const TensorPtr &logits, const TensorPtr &onehot);

}
