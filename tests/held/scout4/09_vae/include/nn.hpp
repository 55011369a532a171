#ifndef NN_HPP
#define NN_HPP

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace nn {

inline void check(cudaError_t e)
{
    if (e != cudaSuccess)
        throw std::runtime_error(cudaGetErrorString(e));
}
inline void check(cublasStatus_t s)
{
    if (s != CUBLAS_STATUS_SUCCESS)
        throw std::runtime_error("cublas status " + std::to_string((int)s));
}

struct Context {
    cudaStream_t stream;
    cublasHandle_t blas;
    std::mt19937 rng;
    Context() : rng(2718)
    {
        check(cudaStreamCreate(&stream));
        check(cublasCreate(&blas));
        check(cublasSetStream(blas, stream));
    }
    ~Context()
    {
        cublasDestroy(blas);
        cudaStreamDestroy(stream);
    }
};

// Device array that owns its memory.
template <typename T> class DeviceArray {
public:
    DeviceArray() = default;
    explicit DeviceArray(size_t n) { resize(n); }
    DeviceArray(const DeviceArray &) = delete;
    DeviceArray &operator=(const DeviceArray &) = delete;
    ~DeviceArray() { cudaFree(ptr_); }
    void resize(size_t n)
    {
        cudaFree(ptr_);
        check(cudaMalloc((void **)&ptr_, n * sizeof(T)));
        check(cudaMemset(ptr_, 0, n * sizeof(T)));
        size_ = n;
    }
    T *data() { return ptr_; }
    const T *data() const { return ptr_; }
    size_t size() const { return size_; }

private:
    T *ptr_ = nullptr;
    size_t size_ = 0;
};

struct Parameter {
    DeviceArray<float> value, grad, m1, m2;
    void init(const std::vector<float> &v)
    {
        value.resize(v.size());
        grad.resize(v.size());
        m1.resize(v.size());
        m2.resize(v.size());
        check(cudaMemcpy(value.data(), v.data(), v.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
};

__global__ void fillBias(float *y, const float *b, int rows, int n);
__global__ void sumColumns(const float *dy, float *db, int rows, int cols);
__global__ void adamStep(float *w, const float *g, float *m, float *v, float lr, int n);

// y = W x + b with column-major W (Out x In), x (In x batch)
template <int In, int Out> class Linear {
public:
    void init(Context &ctx)
    {
        std::uniform_real_distribution<float> u(-1, 1);
        std::vector<float> v(In * Out);
        for (auto &x : v)
            x = u(ctx.rng) * std::sqrt(6.0f / (In + Out));
        W.init(v);
        b.init(std::vector<float>(Out, 0.0f));
    }

    void forward(Context &ctx, const float *x, float *y, int batch)
    {
        const float one = 1;
        fillBias<<<(Out * batch + 127) / 128, 128, 0, ctx.stream>>>(y, b.value.data(), Out, Out * batch);
        check(cublasSgemm(ctx.blas, CUBLAS_OP_N, CUBLAS_OP_N, Out, batch, In, &one, W.value.data(), Out, x, In, &one, y,
                          Out));
    }

    void backward(Context &ctx, const float *x, const float *dy, float *dx, int batch, float beta = 0)
    {
        const float one = 1, zero = 0;
        check(cublasSgemm(ctx.blas, CUBLAS_OP_N, CUBLAS_OP_T, Out, In, batch, &one, dy, Out, x, In, &zero,
                          W.grad.data(), Out));
        sumColumns<<<(Out + 31) / 32, 32, 0, ctx.stream>>>(dy, b.grad.data(), Out, batch);
        if (dx)
            check(cublasSgemm(ctx.blas, CUBLAS_OP_T, CUBLAS_OP_N, In, batch, Out, &one, W.value.data(), Out, dy, Out,
                              &beta, dx, In));
    }

    void collect(std::vector<Parameter *> &out)
    {
        out.push_back(&W);
        out.push_back(&b);
    }

private:
    Parameter W, b;
};

class Adam {
public:
    Adam(std::vector<Parameter *> params, float lr) : params_(std::move(params)), lr_(lr) {}
    void step(Context &ctx)
    {
        ++t_;
        float rate = lr_ * std::sqrt(1 - std::pow(0.999f, t_)) / (1 - std::pow(0.9f, t_));
        for (Parameter *p : params_) {
            int n = (int)p->value.size();
            adamStep<<<(n + 127) / 128, 128, 0, ctx.stream>>>(p->value.data(), p->grad.data(), p->m1.data(),
                                                              p->m2.data(), rate, n);
        }
    }

private:
    std::vector<Parameter *> params_;
    float lr_;
    int t_ = 0;
};

} // namespace nn

#endif
