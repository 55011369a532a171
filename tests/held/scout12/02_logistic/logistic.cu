// Logistic regression with minibatch gradient descent; the whole data set lives on the GPU.
#include <iostream>
#include <random>
#include <vector>
#include <cmath>
#include <cuda_runtime.h>

constexpr int kSamples  = 4096;
constexpr int kFeatures = 300;
constexpr int kBatch    = 128;
constexpr int kEpochs   = 4;

__device__ float sigmoid(float z) { return 1.0f / (1.0f + expf(-z)); }

// one block per sample
__global__ void residual(const float *X, const float *y, const float *w, const float *bias, float *r, float *loss)
{
    __shared__ float part[64];
    const float *row = X + (size_t)blockIdx.x * kFeatures;
    float s = 0;
    for (int f = threadIdx.x; f < kFeatures; f += blockDim.x) s += row[f] * w[f];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int o = 32; o > 0; o >>= 1) {
        if (threadIdx.x < o) part[threadIdx.x] += part[threadIdx.x + o];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        float p = sigmoid(part[0] + *bias);
        float t = y[blockIdx.x];
        r[blockIdx.x] = p - t;
        loss[blockIdx.x] = -(t * logf(p + 1e-7f) + (1 - t) * logf(1 - p + 1e-7f));
    }
}

// grad[f] = sum_i r_i * x_if, the last thread does the bias
__global__ void gradient(const float *X, const float *r, float *gw, float *gb, int n)
{
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f < kFeatures) {
        float s = 0;
        for (int i = 0; i < n; ++i) s += r[i] * X[(size_t)i * kFeatures + f];
        gw[f] = s;
    } else if (f == kFeatures) {
        float s = 0;
        for (int i = 0; i < n; ++i) s += r[i];
        *gb = s;
    }
}

__global__ void update(float *w, float *b, const float *gw, const float *gb, float rate)
{
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f < kFeatures) w[f] -= rate * gw[f];
    if (f == 0) *b -= rate * *gb;
}

int main()
{
    std::mt19937 gen(7);
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> X(kSamples * kFeatures), y(kSamples), truth(kFeatures);
    for (auto &v : truth) v = normal(gen);
    for (int i = 0; i < kSamples; ++i) {
        float z = 0;
        for (int f = 0; f < kFeatures; ++f) {
            X[i * kFeatures + f] = normal(gen);
            z += X[i * kFeatures + f] * truth[f];
        }
        y[i] = z > 0 ? 1.0f : 0.0f;
    }

    float *dX, *dy, *dw, *db, *dgw, *dgb, *dr, *dloss;
    cudaMalloc(&dX, X.size() * sizeof(float));
    cudaMalloc(&dy, y.size() * sizeof(float));
    cudaMalloc(&dw, kFeatures * sizeof(float));
    cudaMalloc(&db, sizeof(float));
    cudaMalloc(&dgw, kFeatures * sizeof(float));
    cudaMalloc(&dgb, sizeof(float));
    cudaMalloc(&dr, kBatch * sizeof(float));
    cudaMalloc(&dloss, kBatch * sizeof(float));
    cudaMemcpy(dX, X.data(), X.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(dw, 0, kFeatures * sizeof(float));
    cudaMemset(db, 0, sizeof(float));

    const float lr = 0.3f;
    std::vector<float> loss(kBatch);
    const int blocks = (kFeatures + 1 + 127) / 128;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        double sum = 0;
        for (int start = 0; start + kBatch <= kSamples; start += kBatch) {
            const float *xb = dX + (size_t)start * kFeatures;
            const float *yb = dy + start;
            residual<<<kBatch, 64>>>(xb, yb, dw, db, dr, dloss);
            gradient<<<blocks, 128>>>(xb, dr, dgw, dgb, kBatch);
            update<<<blocks, 128>>>(dw, db, dgw, dgb, lr / kBatch);
            cudaMemcpy(loss.data(), dloss, kBatch * sizeof(float), cudaMemcpyDeviceToHost);
            for (float l : loss) sum += l;
        }
        std::cout << "epoch " << epoch << " loss " << sum / kSamples << std::endl;
    }
    cudaFree(dX); cudaFree(dy); cudaFree(dw); cudaFree(db);
    cudaFree(dgw); cudaFree(dgb); cudaFree(dr); cudaFree(dloss);
}
