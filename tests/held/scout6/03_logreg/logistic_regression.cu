#include "logistic_regression.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <cuda_runtime.h>

namespace {

void check(cudaError_t e, const char* what)
{
    if (e != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(e));
}

__global__ void sigmoid_forward(const float* X, const float* w, const float* b, float* p, int n, int d)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z = *b;
    for (int j = 0; j < d; ++j)
        z += X[i * d + j] * w[j];
    p[i] = 1.0f / (1.0f + expf(-z));
}

__global__ void compute_gradients(const float* X, const float* p, const float* y, float* dw, float* db, int n, int d)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < d) {
        float g = 0.0f;
        for (int i = 0; i < n; ++i)
            g += (p[i] - y[i]) * X[i * d + j];
        dw[j] = g / n;
    }
    if (j == 0) {
        float g = 0.0f;
        for (int i = 0; i < n; ++i)
            g += p[i] - y[i];
        *db = g / n;
    }
}

__global__ void sgd_step(float* w, const float* dw, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= lr * dw[i];
}

}  // namespace

LogisticRegression::LogisticRegression(int n_features, float learning_rate, int batch_size)
    : n_features_(n_features), learning_rate_(learning_rate), batch_size_(batch_size)
{
    check(cudaMalloc(&d_weights_, n_features_ * sizeof(float)), "weights");
    check(cudaMalloc(&d_bias_, sizeof(float)), "bias");
    check(cudaMalloc(&d_grad_weights_, n_features_ * sizeof(float)), "grad weights");
    check(cudaMalloc(&d_grad_bias_, sizeof(float)), "grad bias");
    check(cudaMemset(d_weights_, 0, n_features_ * sizeof(float)), "weights");
    check(cudaMemset(d_bias_, 0, sizeof(float)), "bias");
}

LogisticRegression::~LogisticRegression()
{
    cudaFree(d_weights_);
    cudaFree(d_bias_);
    cudaFree(d_grad_weights_);
    cudaFree(d_grad_bias_);
}

void LogisticRegression::fit(const std::vector<float>& X, const std::vector<float>& y, int epochs)
{
    const int n = static_cast<int>(y.size());
    const int threads = 128;
    const int blocks_d = (n_features_ + threads - 1) / threads;

    float *d_X, *d_y, *d_p;
    check(cudaMalloc(&d_X, batch_size_ * n_features_ * sizeof(float)), "X");
    check(cudaMalloc(&d_y, batch_size_ * sizeof(float)), "y");
    check(cudaMalloc(&d_p, batch_size_ * sizeof(float)), "p");
    std::vector<float> p(batch_size_);

    for (int epoch = 0; epoch < epochs; ++epoch) {
        double loss = 0.0;
        for (int start = 0; start < n; start += batch_size_) {
            const int count = std::min(batch_size_, n - start);
            check(cudaMemcpy(d_X, X.data() + start * n_features_, count * n_features_ * sizeof(float),
                             cudaMemcpyHostToDevice), "copy X");
            check(cudaMemcpy(d_y, y.data() + start, count * sizeof(float), cudaMemcpyHostToDevice), "copy y");

            sigmoid_forward<<<(count + threads - 1) / threads, threads>>>(d_X, d_weights_, d_bias_, d_p, count,
                                                                          n_features_);
            compute_gradients<<<blocks_d, threads>>>(d_X, d_p, d_y, d_grad_weights_, d_grad_bias_, count, n_features_);
            sgd_step<<<blocks_d, threads>>>(d_weights_, d_grad_weights_, learning_rate_, n_features_);
            sgd_step<<<1, 1>>>(d_bias_, d_grad_bias_, learning_rate_, 1);

            check(cudaMemcpy(p.data(), d_p, count * sizeof(float), cudaMemcpyDeviceToHost), "copy p");
            for (int i = 0; i < count; ++i) {
                float q = std::min(std::max(p[i], 1e-7f), 1.0f - 1e-7f);
                loss -= y[start + i] * std::log(q) + (1.0f - y[start + i]) * std::log(1.0f - q);
            }
        }
        if (epoch % 2 == 0 || epoch == epochs - 1)
            std::printf("epoch %d: log loss %.5f\n", epoch, loss / n);
    }

    cudaFree(d_X);
    cudaFree(d_y);
    cudaFree(d_p);
}

std::vector<float> LogisticRegression::predict_proba(const std::vector<float>& X)
{
    const int n = static_cast<int>(X.size()) / n_features_;
    std::vector<float> p(n);
    float *d_X, *d_p;
    check(cudaMalloc(&d_X, X.size() * sizeof(float)), "X");
    check(cudaMalloc(&d_p, n * sizeof(float)), "p");
    check(cudaMemcpy(d_X, X.data(), X.size() * sizeof(float), cudaMemcpyHostToDevice), "copy X");
    sigmoid_forward<<<(n + 127) / 128, 128>>>(d_X, d_weights_, d_bias_, d_p, n, n_features_);
    check(cudaMemcpy(p.data(), d_p, n * sizeof(float), cudaMemcpyDeviceToHost), "copy p");
    cudaFree(d_X);
    cudaFree(d_p);
    return p;
}

float LogisticRegression::score(const std::vector<float>& X, const std::vector<float>& y)
{
    std::vector<float> p = predict_proba(X);
    int right = 0;
    for (size_t i = 0; i < y.size(); ++i)
        right += (p[i] > 0.5f) == (y[i] > 0.5f);
    return static_cast<float>(right) / y.size();
}
