#pragma once
// A very small reverse mode autograd for 2-d float tensors.
#include <functional>
#include <memory>
#include <vector>

namespace tg {

class Node;
using Tensor = std::shared_ptr<Node>;

class Node {
public:
    Node(int rows, int cols, bool requires_grad);
    ~Node();
    Node(const Node &) = delete;
    Node &operator=(const Node &) = delete;

    int rows() const { return rows_; }
    int cols() const { return cols_; }
    int size() const { return rows_ * cols_; }
    bool requires_grad() const { return requires_grad_; }
    float *data() { return data_; }
    float *grad(); // allocated and zeroed at the first use
    bool has_grad() const { return grad_ != nullptr; }
    void zero_grad();
    void from_host(const float *src);
    std::vector<float> to_host() const;
    float item() const;

    std::vector<Tensor> parents;
    std::function<void()> backward_fn;

private:
    int rows_, cols_;
    bool requires_grad_;
    float *data_ = nullptr;
    float *grad_ = nullptr;
};

Tensor zeros(int rows, int cols, bool requires_grad = false);
Tensor uniform(int rows, int cols, float bound, unsigned seed, bool requires_grad = false);

Tensor matmul(const Tensor &a, const Tensor &b);
Tensor add_bias(const Tensor &x, const Tensor &b);
Tensor gelu(const Tensor &x);
Tensor mse_loss(const Tensor &pred, const Tensor &target); // mean over all elements

void backward(const Tensor &loss);

} // namespace tg
