#pragma once
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <random>
#include <vector>

__global__ void k_add_bias_act(float* y, const float* b, int rows, int cols, bool relu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        float v = y[i] + b[i % cols];
        y[i] = relu && v < 0.f ? 0.f : v;
    }
}

__global__ void k_relu_backward(float* dy, const float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] <= 0.f)
        dy[i] = 0.f;
}

__global__ void k_adam(float* p, const float* g, float* m, float* v, int n, float lr, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        m[i] = 0.9f * m[i] + 0.1f * g[i];
        v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
        p[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
    }
}

// Fully connected layer, row-major: y = x W^T + b. cuBLAS is column-major, so everything is computed transposed.
class Linear {
public:
    Linear(cublasHandle_t handle, int in, int out, int max_batch, bool relu, std::mt19937& rng)
        : h(handle), in(in), out(out), relu(relu)
    {
        W = alloc(in * out);
        b = alloc(out);
        dW = alloc(in * out);
        db = alloc(out);
        mW = alloc(in * out);
        vW = alloc(in * out);
        mb = alloc(out);
        vb = alloc(out);
        y = alloc(max_batch * out);
        dx = alloc(max_batch * in);
        ones = alloc(max_batch);
        std::vector<float> one(max_batch, 1.f), w(in * out);
        cudaMemcpy(ones, one.data(), max_batch * sizeof(float), cudaMemcpyHostToDevice);
        std::normal_distribution<float> d(0.f, std::sqrt(2.f / in));
        for (auto& e : w)
            e = d(rng);
        cudaMemcpy(W, w.data(), w.size() * sizeof(float), cudaMemcpyHostToDevice);
    }

    float* forward(float* input, int n)
    {
        x = input;
        const float one = 1.f, zero = 0.f;
        cublasSgemm(h, CUBLAS_OP_T, CUBLAS_OP_N, out, n, in, &one, W, in, x, in, &zero, y, out);
        k_add_bias_act<<<(n * out + 255) / 256, 256>>>(y, b, n, out, relu);
        return y;
    }

    float* backward(float* dy, int n)
    {
        const float one = 1.f, zero = 0.f;
        if (relu)
            k_relu_backward<<<(n * out + 255) / 256, 256>>>(dy, y, n * out);
        cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_T, in, out, n, &one, x, in, dy, out, &zero, dW, in);
        cublasSgemv(h, CUBLAS_OP_N, out, n, &one, dy, out, ones, 1, &zero, db, 1);
        cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, in, n, out, &one, W, in, dy, out, &zero, dx, in);
        return dx;
    }

    void adam(float lr, int t)
    {
        float c1 = 1.f - std::pow(0.9f, t), c2 = 1.f - std::pow(0.999f, t);
        k_adam<<<(in * out + 255) / 256, 256>>>(W, dW, mW, vW, in * out, lr, c1, c2);
        k_adam<<<(out + 255) / 256, 256>>>(b, db, mb, vb, out, lr, c1, c2);
    }

private:
    static float* alloc(int n)
    {
        float* p;
        cudaMalloc(&p, n * sizeof(float));
        cudaMemset(p, 0, n * sizeof(float));
        return p;
    }

    cublasHandle_t h;
    int in, out;
    bool relu;
    float *W, *b, *dW, *db, *mW, *vW, *mb, *vb;
    float *x, *y, *dx, *ones;
};
