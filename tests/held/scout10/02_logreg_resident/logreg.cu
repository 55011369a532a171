// Logistic regression with mini-batch gradient descent, all data on the GPU.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

#include <cuda_runtime.h>

const int N = 4096;
const int D = 256;
const int BATCH = 128;
const int STEPS = 120;

__global__ void forward(const float* X, const float* y, const float* w, float* err, float* loss, int n, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z = w[d];  // the last one is the intercept
    for (int j = 0; j < d; ++j) z += w[j] * X[i * d + j];
    float p = 1.0f / (1.0f + expf(-z));
    err[i] = p - y[i];
    atomicAdd(loss, y[i] > 0.5f ? -logf(p + 1e-8f) : -logf(1.0f - p + 1e-8f));
}

// one block per feature
__global__ void gradient(const float* X, const float* err, float* grad, int n, int d) {
    __shared__ float part[64];
    int j = blockIdx.x;
    float s = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += err[i] * (j < d ? X[i * d + j] : 1.0f);
    part[threadIdx.x] = s;
    __syncthreads();
    for (int o = blockDim.x / 2; o > 0; o >>= 1) {
        if (threadIdx.x < o) part[threadIdx.x] += part[threadIdx.x + o];
        __syncthreads();
    }
    if (threadIdx.x == 0) grad[j] = part[0];
}

__global__ void step(float* w, const float* grad, float lr, float l2, int n, int d) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j > d) return;
    w[j] -= lr * (grad[j] / n + (j < d ? l2 * w[j] : 0.0f));
}

int main() {
    std::mt19937 gen(7);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::vector<float> X(N * D), y(N), w_true(D);
    for (auto& v : w_true) v = normal(gen);
    for (int i = 0; i < N; ++i) {
        float z = 0.3f;
        for (int j = 0; j < D; ++j) {
            X[i * D + j] = normal(gen);
            z += X[i * D + j] * w_true[j];
        }
        y[i] = z > 0.0f ? 1.0f : 0.0f;
    }

    float *d_X, *d_y, *d_w, *d_grad, *d_err, *d_loss;
    cudaMalloc(&d_X, X.size() * sizeof(float));
    cudaMalloc(&d_y, y.size() * sizeof(float));
    cudaMalloc(&d_w, (D + 1) * sizeof(float));
    cudaMalloc(&d_grad, (D + 1) * sizeof(float));
    cudaMalloc(&d_err, BATCH * sizeof(float));
    cudaMalloc(&d_loss, sizeof(float));
    cudaMemcpy(d_X, X.data(), X.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_y, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(d_w, 0, (D + 1) * sizeof(float));

    float lr = 0.5f;
    for (int t = 0; t < STEPS; ++t) {
        int start = (t * BATCH) % N;
        cudaMemset(d_loss, 0, sizeof(float));
        forward<<<(BATCH + 63) / 64, 64>>>(d_X + start * D, d_y + start, d_w, d_err, d_loss, BATCH, D);
        gradient<<<D + 1, 64>>>(d_X + start * D, d_err, d_grad, BATCH, D);
        step<<<(D + 64) / 64, 64>>>(d_w, d_grad, lr, 1e-4f, BATCH, D);
        if (t % 10 == 0 || t == STEPS - 1) {
            float loss;
            cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
            std::cout << "step " << t << " loss " << loss / BATCH << std::endl;
        }
    }

    // cosine between the found and the true weights
    std::vector<float> w(D + 1);
    cudaMemcpy(w.data(), d_w, w.size() * sizeof(float), cudaMemcpyDeviceToHost);
    double ab = 0, aa = 0, bb = 0;
    for (int j = 0; j < D; ++j) {
        ab += w[j] * w_true[j];
        aa += w[j] * w[j];
        bb += w_true[j] * w_true[j];
    }
    std::cout << "cosine " << ab / std::sqrt(aa * bb) << std::endl;

    cudaFree(d_X);
    cudaFree(d_y);
    cudaFree(d_w);
    cudaFree(d_grad);
    cudaFree(d_err);
    cudaFree(d_loss);
    return 0;
}
