// libnn: a very small neural network library
#pragma once
#include <cuda_runtime.h>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace nn {

class Buffer {
public:
    explicit Buffer(int count) : count_(count)
    {
        check(cudaMalloc((void **)&ptr_, count * sizeof(float)));
        fill_zero();
    }
    ~Buffer() { cudaFree(ptr_); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    float *ptr() const { return ptr_; }
    int count() const { return count_; }
    void write(const float *src, int n) { check(cudaMemcpy(ptr_, src, n * sizeof(float), cudaMemcpyHostToDevice)); }
    void read(float *dst, int n) const { check(cudaMemcpy(dst, ptr_, n * sizeof(float), cudaMemcpyDeviceToHost)); }
    void fill_zero() { check(cudaMemset(ptr_, 0, count_ * sizeof(float))); }

private:
    static void check(cudaError_t e)
    {
        if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e));
    }
    float *ptr_;
    int count_;
};
using BufferPtr = std::shared_ptr<Buffer>;

struct Param {
    std::string name;
    BufferPtr data, grad;
};

// What goes through the network: rows x cols and the gradient with respect to it
struct Activation {
    int rows, cols;
    BufferPtr data, grad;
    Activation(int r, int c);
};
using ActivationPtr = std::shared_ptr<Activation>;

class Module {
public:
    virtual ~Module() {}
    virtual ActivationPtr forward(const ActivationPtr &x) = 0;
    virtual void backward() = 0;
    virtual void collect(std::vector<Param> &) {}
    void train(bool on) { training_ = on; }

protected:
    bool training_ = true;
    ActivationPtr in_, out_;
    void prepare(const ActivationPtr &x, int cols);
};

// Fully connected layer, optionally with a leaky ReLU
class Linear : public Module {
public:
    Linear(int in, int out, bool relu, std::mt19937 &rng);
    ActivationPtr forward(const ActivationPtr &x) override;
    void backward() override;
    void collect(std::vector<Param> &p) override;

private:
    int nin_, nout_;
    bool relu_;
    Param weight_, bias_;
};

class Dropout : public Module {
public:
    Dropout(float rate, unsigned seed) : rate_(rate), seed_(seed) {}
    ActivationPtr forward(const ActivationPtr &x) override;
    void backward() override;

private:
    float rate_;
    unsigned seed_, calls_ = 0;
};

class Sequential {
public:
    template <typename M, typename... A> Sequential &add(A &&...a)
    {
        modules_.emplace_back(new M(std::forward<A>(a)...));
        return *this;
    }
    ActivationPtr forward(ActivationPtr x);
    void backward();
    void train(bool on);
    std::vector<Param> params();

private:
    std::vector<std::unique_ptr<Module>> modules_;
};

// Sigmoid and binary cross entropy; fills logits->grad and returns the mean loss
float bce_with_logits(const ActivationPtr &logits, const Buffer &target);

class SGD {
public:
    SGD(std::vector<Param> params, float lr, float momentum, float weight_decay);
    void zero_grad();
    void step();
    float lr;

private:
    std::vector<Param> params_;
    std::vector<BufferPtr> velocity_;
    float momentum_, weight_decay_;
};

} // namespace nn
