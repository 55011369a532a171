#include "dense.h"
#include <cmath>
#include <random>
#include <vector>

namespace {
__global__ void bias_act(float *y, const float *b, int out, int n, bool sigmoid)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= out * n) return;
    float v = y[i] + b[i % out];
    y[i] = sigmoid ? 1.0f / (1.0f + expf(-v)) : tanhf(v);
}

__global__ void act_grad(float *d, const float *y, int n, bool sigmoid)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] *= sigmoid ? y[i] * (1.0f - y[i]) : 1.0f - y[i] * y[i];
}

__global__ void momentum_update(float *w, float *v, const float *g, int n, float lr, float mu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        v[i] = mu * v[i] - lr * g[i];
        w[i] += v[i];
    }
}

__global__ void fill(float *p, float value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = value;
}

int grid(int n) { return (n + 255) / 256; }
}

Dense::Dense(cublasHandle_t h, int in, int out, int max_batch, bool sigmoid, unsigned seed)
    : handle_(h), in_(in), out_(out), sigmoid_(sigmoid)
{
    CUDA_CALL(cudaMalloc(&w_, sizeof(float) * in * out));
    CUDA_CALL(cudaMalloc(&dw_, sizeof(float) * in * out));
    CUDA_CALL(cudaMalloc(&vw_, sizeof(float) * in * out));
    CUDA_CALL(cudaMalloc(&b_, sizeof(float) * out));
    CUDA_CALL(cudaMalloc(&db_, sizeof(float) * out));
    CUDA_CALL(cudaMalloc(&vb_, sizeof(float) * out));
    CUDA_CALL(cudaMalloc(&y_, sizeof(float) * out * max_batch));
    CUDA_CALL(cudaMalloc(&dx_, sizeof(float) * in * max_batch));
    CUDA_CALL(cudaMalloc(&ones_, sizeof(float) * max_batch));
    std::mt19937 gen(seed);
    float r = std::sqrt(6.0f / (in + out));
    std::uniform_real_distribution<float> u(-r, r);
    std::vector<float> w(in * out);
    for (float &v : w) v = u(gen);
    CUDA_CALL(cudaMemcpy(w_, w.data(), sizeof(float) * in * out, cudaMemcpyHostToDevice));
    fill<<<grid(in * out), 256>>>(vw_, 0, in * out);
    fill<<<grid(out), 256>>>(b_, 0, out);
    fill<<<grid(out), 256>>>(vb_, 0, out);
    fill<<<grid(max_batch), 256>>>(ones_, 1, max_batch);
}

Dense::~Dense()
{
    for (float *p : {w_, b_, dw_, db_, vw_, vb_, y_, dx_, ones_}) cudaFree(p);
}

const float *Dense::forward(const float *x, int n, cudaStream_t s)
{
    const float one = 1, zero = 0;
    x_ = x;
    CUBLAS_CALL(cublasSgemm(handle_, CUBLAS_OP_T, CUBLAS_OP_N, out_, n, in_, &one, w_, in_, x, in_, &zero, y_, out_));
    bias_act<<<grid(out_ * n), 256, 0, s>>>(y_, b_, out_, n, sigmoid_);
    return y_;
}

float *Dense::backward(float *d, int n, cudaStream_t s, bool need_dx)
{
    const float one = 1, zero = 0, mean = 1.0f / n;
    act_grad<<<grid(out_ * n), 256, 0, s>>>(d, y_, out_ * n, sigmoid_);
    CUBLAS_CALL(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_T, in_, out_, n, &mean, x_, in_, d, out_, &zero, dw_, in_));
    CUBLAS_CALL(cublasSgemv(handle_, CUBLAS_OP_N, out_, n, &mean, d, out_, ones_, 1, &zero, db_, 1));
    if (!need_dx) return nullptr;
    CUBLAS_CALL(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, in_, n, out_, &one, w_, in_, d, out_, &zero, dx_, in_));
    return dx_;
}

void Dense::step(float lr, float momentum, cudaStream_t s)
{
    momentum_update<<<grid(in_ * out_), 256, 0, s>>>(w_, vw_, dw_, in_ * out_, lr, momentum);
    momentum_update<<<grid(out_), 256, 0, s>>>(b_, vb_, db_, out_, lr, momentum);
}
