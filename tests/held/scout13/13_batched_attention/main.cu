// Attention pooling over sets of vectors: the target is a projection of the member with the largest first coordinate.
// Projections are plain gemms over all rows, the attention itself uses strided batched gemms.
#include "ops.h"
#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

struct Config {
    int batch = 32, set = 6, dim = 8, out = 2, sets = 384, steps = 48;
    float lr = 0.1f;
};

class AttentionPool {
public:
    explicit AttentionPool(const Config &c) : c_(c)
    {
        cublasCreate(&blas_);
        std::mt19937 rng(8);
        for (const char *name : {"query", "key", "value", "output"}) {
            int n = c.dim * (name[0] == 'o' ? c.out : c.dim);
            std::normal_distribution<float> d(0.f, 1.f / std::sqrt((float)c.dim));
            std::vector<float> h(n);
            for (auto &x : h) x = d(rng);
            size_[name] = n;
            weight_[name] = reserve(n);
            grad_[name] = reserve(n);
            velocity_[name] = reserve(n);
            cudaMemcpy(weight_[name], h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
        }
        const int rows = c.batch * c.set;
        for (float **p : {&q_, &k_, &v_, &o_, &dq_, &dk_, &dv_, &do_}) *p = reserve(rows * c.dim);
        a_ = reserve(rows * c.set);
        da_ = reserve(rows * c.set);
        pooled_ = reserve(c.batch * c.dim);
        dpooled_ = reserve(c.batch * c.dim);
        y_ = reserve(c.batch * c.out);
        dy_ = reserve(c.batch * c.out);
        loss_ = reserve(1);
    }

    ~AttentionPool()
    {
        for (float *p : memory_) cudaFree(p);
        cublasDestroy(blas_);
    }

    float train(const float *x, const float *target)
    {
        forward(x);
        cudaMemset(loss_, 0, sizeof(float));
        mse(y_, target, dy_, loss_, c_.batch, c_.out);
        backward(x);
        for (auto &w : weight_) momentum_update(w.second, grad_[w.first], velocity_[w.first], size_[w.first], c_.lr);
        float l;
        cudaMemcpy(&l, loss_, sizeof l, cudaMemcpyDeviceToHost);
        return l;
    }

private:
    float *reserve(size_t n)
    {
        float *p;
        cudaMalloc(&p, n * sizeof(float));
        cudaMemset(p, 0, n * sizeof(float));
        memory_.push_back(p);
        return p;
    }

    void forward(const float *x)
    {
        const int b = c_.batch, t = c_.set, d = c_.dim;
        matmul(blas_, x, weight_["query"], q_, b * t, d, d);
        matmul(blas_, x, weight_["key"], k_, b * t, d, d);
        matmul(blas_, x, weight_["value"], v_, b * t, d, d);
        bmm_tb(blas_, q_, k_, a_, b, t, d, t, 1.f / std::sqrt((float)d));
        softmax_rows(a_, b * t, t);
        bmm(blas_, a_, v_, o_, b, t, t, d);
        pool(o_, pooled_, b, t, d);
        matmul(blas_, pooled_, weight_["output"], y_, b, d, c_.out);
    }

    void backward(const float *x)
    {
        const int b = c_.batch, t = c_.set, d = c_.dim;
        matmul_ta(blas_, pooled_, dy_, grad_["output"], b, d, c_.out);
        matmul_tb(blas_, dy_, weight_["output"], dpooled_, b, c_.out, d);
        unpool(dpooled_, do_, b, t, d);
        bmm_tb(blas_, do_, v_, da_, b, t, d, t, 1.f);
        bmm_ta(blas_, a_, do_, dv_, b, t, t, d);
        softmax_rows_backward(a_, da_, b * t, t, 1.f / std::sqrt((float)d));
        bmm(blas_, da_, k_, dq_, b, t, t, d);
        bmm_ta(blas_, da_, q_, dk_, b, t, t, d);
        matmul_ta(blas_, x, dq_, grad_["query"], b * t, d, d);
        matmul_ta(blas_, x, dk_, grad_["key"], b * t, d, d);
        matmul_ta(blas_, x, dv_, grad_["value"], b * t, d, d);
    }

    Config c_;
    cublasHandle_t blas_;
    std::map<std::string, float *> weight_, grad_, velocity_;
    std::map<std::string, int> size_;
    std::vector<float *> memory_;
    float *q_, *k_, *v_, *o_, *dq_, *dk_, *dv_, *do_, *a_, *da_, *pooled_, *dpooled_, *y_, *dy_, *loss_;
};

int main()
{
    Config c;
    std::mt19937 rng(55);
    std::normal_distribution<float> normal;
    std::vector<float> x(c.sets * c.set * c.dim), target(c.sets * c.out);
    for (auto &v : x) v = normal(rng);
    for (int s = 0; s < c.sets; ++s) {
        int best = 0;
        for (int i = 1; i < c.set; ++i)
            if (x[(s * c.set + i) * c.dim] > x[(s * c.set + best) * c.dim]) best = i;
        target[s * c.out] = x[(s * c.set + best) * c.dim + 1];
        target[s * c.out + 1] = x[(s * c.set + best) * c.dim];
    }
    float *dx, *dt;
    cudaMalloc(&dx, x.size() * sizeof(float));
    cudaMalloc(&dt, target.size() * sizeof(float));
    cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dt, target.data(), target.size() * sizeof(float), cudaMemcpyHostToDevice);

    AttentionPool model(c);
    const int perEpoch = c.sets / c.batch;
    float sum = 0.f;
    for (int step = 0; step < c.steps; ++step) {
        const size_t first = size_t(step % perEpoch) * c.batch;
        sum += model.train(dx + first * c.set * c.dim, dt + first * c.out);
        if ((step + 1) % perEpoch == 0) {
            printf("epoch %d: loss %.5f\n", step / perEpoch, sum / perEpoch);
            sum = 0.f;
        }
    }
    cudaFree(dx);
    cudaFree(dt);
    return 0;
}
