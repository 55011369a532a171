#pragma once
#include <functional>
#include <memory>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>

namespace tt {

class Tensor;
using TensorPtr = std::shared_ptr<Tensor>;

// Row-major matrix with a gradient and a closure that passes it on to its inputs
class Tensor {
public:
    Tensor(int rows, int cols, bool requiresGrad);
    ~Tensor();
    int rows, cols;
    float *data = nullptr;
    float *grad = nullptr; // allocated on first use
    bool requiresGrad;
    std::vector<TensorPtr> inputs;
    std::function<void(Tensor &)> backwardFn;

    int size() const { return rows * cols; }
    float *gradient();
    void zeroGrad();
    void copyFromHost(const float *h);
    std::vector<float> toHost() const;
    void backward(); // this must be 1 x 1
};

TensorPtr make(int rows, int cols, bool requiresGrad = false);
cublasHandle_t blas();

TensorPtr matmul(TensorPtr a, TensorPtr b);
TensorPtr addBias(TensorPtr a, TensorPtr b);
TensorPtr gelu(TensorPtr a);
TensorPtr mseLoss(TensorPtr pred, TensorPtr target);

class Module {
public:
    virtual ~Module() = default;
    virtual TensorPtr operator()(TensorPtr x) = 0;
    virtual std::vector<TensorPtr> parameters() { return {}; }
};

class SGD {
public:
    SGD(std::vector<TensorPtr> params, float lr, float momentum, bool nesterov);
    ~SGD();
    void step();
    void zeroGrad();
    float lr;

private:
    std::vector<TensorPtr> params;
    std::vector<float *> velocity;
    float momentum;
    bool nesterov;
};

} // namespace tt
