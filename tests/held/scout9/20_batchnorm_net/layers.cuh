#ifndef LAYERS_CUH
#define LAYERS_CUH
#include "tensor.cuh"
#include <cmath>
#include <cublas_v2.h>
#include <random>

// Tensors are column-major: a column is a sample, rows are features.

__global__ void add_bias(float *y, const float *b, int rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += b[i % rows];
}

__global__ void relu_fwd(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] > 0.f ? x[i] : 0.f;
}

__global__ void relu_bwd(const float *y, const float *dy, float *dx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dx[i] = y[i] > 0.f ? dy[i] : 0.f;
}

// one thread for each feature
__global__ void bn_fwd_train(const float *x, float *xhat, float *y, const float *gamma, const float *beta, float *inv_std,
                             float *run_mean, float *run_var, int rows, int batch, float momentum)
{
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f >= rows)
        return;
    float mean = 0.f, var = 0.f;
    for (int s = 0; s < batch; ++s)
        mean += x[s * rows + f];
    mean /= batch;
    for (int s = 0; s < batch; ++s)
        var += (x[s * rows + f] - mean) * (x[s * rows + f] - mean);
    var /= batch;
    float is = rsqrtf(var + 1e-5f);
    inv_std[f] = is;
    for (int s = 0; s < batch; ++s) {
        float h = (x[s * rows + f] - mean) * is;
        xhat[s * rows + f] = h;
        y[s * rows + f] = gamma[f] * h + beta[f];
    }
    run_mean[f] = (1.f - momentum) * run_mean[f] + momentum * mean;
    run_var[f] = (1.f - momentum) * run_var[f] + momentum * var;
}

__global__ void bn_fwd_eval(const float *x, float *y, const float *gamma, const float *beta, const float *run_mean,
                            const float *run_var, int rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int f = i % rows;
        y[i] = gamma[f] * (x[i] - run_mean[f]) * rsqrtf(run_var[f] + 1e-5f) + beta[f];
    }
}

__global__ void bn_bwd(const float *xhat, const float *dy, float *dx, const float *gamma, const float *inv_std, float *dgamma,
                       float *dbeta, int rows, int batch)
{
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f >= rows)
        return;
    float dg = 0.f, db = 0.f;
    for (int s = 0; s < batch; ++s) {
        dg += dy[s * rows + f] * xhat[s * rows + f];
        db += dy[s * rows + f];
    }
    dgamma[f] = dg;
    dbeta[f] = db;
    for (int s = 0; s < batch; ++s)
        dx[s * rows + f] = gamma[f] * inv_std[f] * (dy[s * rows + f] - db / batch - xhat[s * rows + f] * dg / batch);
}

class Module {
public:
    virtual ~Module() {}
    virtual Tensor forward(Tensor x, bool training) = 0;
    virtual Tensor backward(Tensor dy) = 0;
    virtual std::vector<Variable *> variables() { return {}; }
};

class Linear : public Module {
public:
    Linear(cublasHandle_t h, int in, int out, int batch, std::mt19937 &rng)
        : h_(h), w_(out, in), b_(out, 1), y_(out, batch), dx_(in, batch), ones_(batch, 1, 1.f)
    {
        std::normal_distribution<float> nd(0.f, std::sqrt(2.f / in));
        std::vector<float> v(out * in);
        for (float &x : v)
            x = nd(rng);
        w_.value.set(v.data());
    }
    Tensor forward(Tensor x, bool) override
    {
        x_ = x;
        const float one = 1.f, zero = 0.f;
        const int out = y_.rows, in = x.rows, n = x.cols;
        cublasSgemm(h_, CUBLAS_OP_N, CUBLAS_OP_N, out, n, in, &one, w_.value.ptr(), out, x.ptr(), in, &zero, y_.ptr(), out);
        add_bias<<<(y_.size() + 127) / 128, 128>>>(y_.ptr(), b_.value.ptr(), out, y_.size());
        return y_;
    }
    Tensor backward(Tensor dy) override
    {
        const float one = 1.f, zero = 0.f;
        const int out = dy.rows, in = x_.rows, n = dy.cols;
        cublasSgemm(h_, CUBLAS_OP_N, CUBLAS_OP_T, out, in, n, &one, dy.ptr(), out, x_.ptr(), in, &zero, w_.grad.ptr(), out);
        cublasSgemv(h_, CUBLAS_OP_N, out, n, &one, dy.ptr(), out, ones_.ptr(), 1, &zero, b_.grad.ptr(), 1);
        cublasSgemm(h_, CUBLAS_OP_T, CUBLAS_OP_N, in, n, out, &one, w_.value.ptr(), out, dy.ptr(), out, &zero, dx_.ptr(), in);
        return dx_;
    }
    std::vector<Variable *> variables() override { return {&w_, &b_}; }

private:
    cublasHandle_t h_;
    Variable w_, b_;
    Tensor x_, y_, dx_, ones_;
};

class BatchNorm : public Module {
public:
    BatchNorm(int features, int batch)
        : gamma_(features, 1, 1.f), beta_(features, 1), mean_(features, 1), var_(features, 1, 1.f), inv_std_(features, 1),
          xhat_(features, batch), y_(features, batch), dx_(features, batch)
    {
    }
    Tensor forward(Tensor x, bool training) override
    {
        if (training)
            bn_fwd_train<<<(x.rows + 31) / 32, 32>>>(x.ptr(), xhat_.ptr(), y_.ptr(), gamma_.value.ptr(), beta_.value.ptr(),
                                                     inv_std_.ptr(), mean_.ptr(), var_.ptr(), x.rows, x.cols, 0.1f);
        else
            bn_fwd_eval<<<(x.size() + 127) / 128, 128>>>(x.ptr(), y_.ptr(), gamma_.value.ptr(), beta_.value.ptr(),
                                                         mean_.ptr(), var_.ptr(), x.rows, x.size());
        return y_;
    }
    Tensor backward(Tensor dy) override
    {
        bn_bwd<<<(dy.rows + 31) / 32, 32>>>(xhat_.ptr(), dy.ptr(), dx_.ptr(), gamma_.value.ptr(), inv_std_.ptr(),
                                            gamma_.grad.ptr(), beta_.grad.ptr(), dy.rows, dy.cols);
        return dx_;
    }
    std::vector<Variable *> variables() override { return {&gamma_, &beta_}; }

private:
    Variable gamma_, beta_;
    Tensor mean_, var_, inv_std_, xhat_, y_, dx_;
};

class ReLU : public Module {
public:
    ReLU(int features, int batch) : y_(features, batch), dx_(features, batch) {}
    Tensor forward(Tensor x, bool) override
    {
        relu_fwd<<<(x.size() + 127) / 128, 128>>>(x.ptr(), y_.ptr(), x.size());
        return y_;
    }
    Tensor backward(Tensor dy) override
    {
        relu_bwd<<<(dy.size() + 127) / 128, 128>>>(y_.ptr(), dy.ptr(), dx_.ptr(), dy.size());
        return dx_;
    }

private:
    Tensor y_, dx_;
};
#endif
