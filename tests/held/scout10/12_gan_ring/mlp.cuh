#pragma once
// A small MLP with leaky ReLU between the layers, everything in row-major batches.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#define GPU(call) do { cudaError_t e = call; if (e) { std::fprintf(stderr, "%s failed: %s\n", #call, cudaGetErrorString(e)); std::abort(); } } while (0)

__global__ void k_forward(const float* x, const float* w, const float* b, float* y, int n, int in, int out, bool act) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n * out; i += gridDim.x * blockDim.x) {
        float s = b[i % out];
        for (int k = 0; k < in; k++) s += x[i / out * in + k] * w[i % out * in + k];
        y[i] = act && s < 0 ? 0.2f * s : s;
    }
}
__global__ void k_act_back(float* dy, const float* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        if (y[i] < 0) dy[i] *= 0.2f;
}
// gradients are added up, see zero_grad
__global__ void k_weights_back(const float* x, const float* dy, float* dw, float* db, int n, int in, int out) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < in * out; i += gridDim.x * blockDim.x) {
        float s = 0, t = 0;
        for (int r = 0; r < n; r++) {
            s += x[r * in + i % in] * dy[r * out + i / in];
            t += dy[r * out + i / in];
        }
        dw[i] += s;
        if (i % in == 0) db[i / in] += t;
    }
}
__global__ void k_input_back(const float* dy, const float* w, float* dx, int n, int in, int out) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n * in; i += gridDim.x * blockDim.x) {
        float s = 0;
        for (int c = 0; c < out; c++) s += dy[i / in * out + c] * w[c * in + i % in];
        dx[i] = s;
    }
}
__global__ void k_adam(float* w, const float* g, float* m, float* v, float lr, float corr, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        m[i] = 0.5f * m[i] + 0.5f * g[i];
        v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
        w[i] -= lr * corr * m[i] / (sqrtf(v[i]) + 1e-8f);
    }
}

class Mlp {
public:
    Mlp(const std::vector<int>& dims, int max_batch, unsigned seed) : dims_(dims) {
        for (size_t l = 0; l + 1 < dims.size(); l++) {
            w_off_.push_back(total_);
            total_ += dims[l] * dims[l + 1];
            b_off_.push_back(total_);
            total_ += dims[l + 1];
        }
        std::vector<float> init(total_, 0.0f);
        std::mt19937 gen(seed);
        for (size_t l = 0; l + 1 < dims.size(); l++) {
            std::normal_distribution<float> nd(0, std::sqrt(2.0f / dims[l]));
            for (int i = 0; i < dims[l] * dims[l + 1]; i++) init[w_off_[l] + i] = nd(gen);
        }
        for (float** p : {&params_, &grads_, &m_, &v_}) {
            GPU(cudaMalloc(p, total_ * sizeof(float)));
            GPU(cudaMemset(*p, 0, total_ * sizeof(float)));
        }
        GPU(cudaMemcpy(params_, init.data(), total_ * sizeof(float), cudaMemcpyHostToDevice));
        for (int d : dims) {
            float *a, *g;
            GPU(cudaMalloc(&a, max_batch * d * sizeof(float)));
            GPU(cudaMalloc(&g, max_batch * d * sizeof(float)));
            act_.push_back(a);
            dact_.push_back(g);
        }
    }
    ~Mlp() {
        for (float* p : {params_, grads_, m_, v_}) cudaFree(p);
        for (float* p : act_) cudaFree(p);
        for (float* p : dact_) cudaFree(p);
    }
    float* input() { return act_.front(); }
    float* output() { return act_.back(); }
    float* d_output() { return dact_.back(); }
    float* d_input() { return dact_.front(); }
    int size() const { return total_; }

    void forward(int n) {
        for (size_t l = 0; l + 1 < dims_.size(); l++)
            k_forward<<<16, 128>>>(act_[l], params_ + w_off_[l], params_ + b_off_[l], act_[l + 1], n, dims_[l], dims_[l + 1],
                                   l + 2 < dims_.size());
    }
    void backward(int n, bool want_grads = true) {
        for (int l = (int)dims_.size() - 2; l >= 0; l--) {
            if (l + 2 < (int)dims_.size()) k_act_back<<<16, 128>>>(dact_[l + 1], act_[l + 1], n * dims_[l + 1]);
            if (want_grads)
                k_weights_back<<<16, 128>>>(act_[l], dact_[l + 1], grads_ + w_off_[l], grads_ + b_off_[l], n, dims_[l], dims_[l + 1]);
            k_input_back<<<16, 128>>>(dact_[l + 1], params_ + w_off_[l], dact_[l], n, dims_[l], dims_[l + 1]);
        }
    }
    void zero_grad() { GPU(cudaMemset(grads_, 0, total_ * sizeof(float))); }
    void adam_step(float lr) {
        t_++;
        float corr = std::sqrt(1 - std::pow(0.99f, t_)) / (1 - std::pow(0.5f, t_));
        k_adam<<<16, 128>>>(params_, grads_, m_, v_, lr, corr, total_);
    }

private:
    std::vector<int> dims_, w_off_, b_off_;
    int total_ = 0, t_ = 0;
    float *params_, *grads_, *m_, *v_;
    std::vector<float*> act_, dact_;
};
