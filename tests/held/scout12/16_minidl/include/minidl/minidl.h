#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace minidl {

class Buffer {
public:
    explicit Buffer(size_t n);
    ~Buffer();
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    float *get() const { return p_; }
    size_t size() const { return n_; }
    void zero();
    void from_host(const float *h, size_t n);
    void to_host(float *h, size_t n) const;
private:
    float *p_;
    size_t n_;
};
using BufferPtr = std::shared_ptr<Buffer>;

struct Variable {                        // n x d
    size_t n, d;
    BufferPtr data, grad;
    Variable(size_t n, size_t d, bool grad = true)
        : n(n), d(d), data(std::make_shared<Buffer>(n * d)), grad(grad ? std::make_shared<Buffer>(n * d) : nullptr) {}
};
using Var = std::shared_ptr<Variable>;

namespace ops {
void matmul(const float *a, const float *b, float *c, size_t m, size_t k, size_t n, bool ta, bool tb);
void add_row(float *y, const float *row, size_t n, size_t d);
void sum_rows(const float *y, float *row, size_t n, size_t d);
void relu(const float *x, float *y, size_t n);
void relu_grad(const float *y, const float *dy, float *dx, size_t n);
void softmax_cross_entropy(const float *z, const float *onehot, float *dz, float *loss, size_t n, size_t d);
void sgd(float *w, const float *g, float *v, size_t n, float lr, float momentum, float scale);
}

class Module {
public:
    virtual ~Module() = default;
    virtual Var forward(const Var &x) = 0;
    virtual void backward() = 0;
    virtual std::vector<Var> parameters() { return {}; }
};

class Linear : public Module {
public:
    Linear(size_t in, size_t out, unsigned seed);
    Var forward(const Var &x) override;
    void backward() override;
    std::vector<Var> parameters() override { return { weight, bias }; }
private:
    Var weight, bias, x_, y_;
};

class ReLU : public Module {
public:
    Var forward(const Var &x) override;
    void backward() override;
private:
    Var x_, y_;
};

class Sequential : public Module {
public:
    template <class M, class... A> Sequential &add(A... a)
    {
        modules_.emplace_back(new M(a...));
        return *this;
    }
    Var forward(const Var &x) override;
    void backward() override;
    std::vector<Var> parameters() override;
private:
    std::vector<std::unique_ptr<Module>> modules_;
};

class CrossEntropy {
public:
    float forward(const Var &z, const Var &onehot);    // sum over the rows, gradient in z
};

class SGD {
public:
    SGD(std::vector<Var> params, float lr, float momentum);
    void step(size_t batch);
    float lr;
private:
    std::vector<Var> params_;
    std::vector<BufferPtr> velocity_;
    float momentum_;
};

class DataLoader {
public:
    DataLoader(std::vector<float> x, std::vector<int> y, size_t dim, size_t classes, size_t batch, unsigned seed);
    bool next(Var &x, Var &onehot);       // false at the end of the epoch, which shuffles
private:
    void shuffle();
    std::vector<float> x_, hx_, hy_;
    std::vector<int> y_;
    std::vector<size_t> perm_;
    size_t dim_, classes_, batch_, at_;
    unsigned state_;
};

}
