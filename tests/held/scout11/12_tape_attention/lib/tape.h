#pragma once
// tinytape: reverse mode differentiation over 2-d float tensors on the GPU
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tt {

struct Storage {
    explicit Storage(size_t n);
    ~Storage();
    float *ptr;
    size_t n;
};

struct Node {
    int rows, cols;
    std::shared_ptr<Storage> value, grad;
    bool requires_grad = false;
    std::function<void()> backward;
    size_t size() const { return (size_t)rows * cols; }
};
using Var = std::shared_ptr<Node>;

class Tape {
public:
    Var zeros(int rows, int cols);
    Var parameter(int rows, int cols, float scale, unsigned &seed);
    Var matmul(Var a, Var b, bool transpose_b = false);
    Var bmm(Var a, Var b, int group, bool transpose_b);      // independent products on groups of rows
    Var add_bias(Var a, Var bias);
    Var softmax_rows(Var a, float scale);
    Var relu(Var a);
    Var mean_pool(Var a, int group);                         // mean over each group of rows
    Var embedding(Var table, const int *device_ids, int n, int period, Var positions);
    Var cross_entropy(Var logits, const int *device_labels); // mean over rows; a 1x1 result
    void backward(Var loss);
    void clear();

private:
    Var make(int rows, int cols);
    std::vector<Var> order_;
    void *blas();
    void *blas_ = nullptr;
};

void copy_to_host(const Var &v, std::vector<float> &out);

class Optimizer {
public:
    virtual ~Optimizer() = default;
    void add(const Var &v) { params_.push_back(v); }
    void zero_grad();
    virtual void step() = 0;

protected:
    std::vector<Var> params_;
};

class AdamW : public Optimizer {
public:
    AdamW(float lr, float decay) : lr(lr), decay_(decay) {}
    void step() override;
    float lr;

private:
    float decay_;
    int t_ = 0;
    std::vector<std::unique_ptr<Storage>> m_, v_;
};

} // namespace tt
