// Autoencoder 64-32-6-32-64 for 8x8 patches of oriented waves
#include "linear.cuh"
#include <cstdio>

constexpr int kPatch = 64;
constexpr int kBatch = 100;
constexpr int kTrain = 2000;

__global__ void k_mse(const float* y, const float* target, float* dy, float* loss, int n, int dim)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float s = 0.f;
        for (int j = 0; j < dim; ++j) {
            float d = y[i * dim + j] - target[i * dim + j];
            s += d * d;
            dy[i * dim + j] = 2.f * d / (n * dim);
        }
        loss[i] = s / dim;
    }
}

int main()
{
    std::mt19937 rng(2021);
    std::uniform_real_distribution<float> u(0.f, 1.f);
    std::vector<float> patches(kTrain * kPatch);
    for (int i = 0; i < kTrain; ++i) {
        float angle = 3.14159f * u(rng), phase = 6.28318f * u(rng), freq = 0.4f + 0.4f * u(rng);
        for (int r = 0; r < 8; ++r)
            for (int c = 0; c < 8; ++c)
                patches[i * kPatch + r * 8 + c] = std::sin(freq * (std::cos(angle) * c + std::sin(angle) * r) + phase);
    }

    float *data, *dy, *loss;
    cudaMalloc(&data, patches.size() * sizeof(float));
    cudaMemcpy(data, patches.data(), patches.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMalloc(&dy, kBatch * kPatch * sizeof(float));
    cudaMalloc(&loss, kBatch * sizeof(float));

    cublasHandle_t handle;
    cublasCreate(&handle);
    std::vector<Linear> net;
    net.emplace_back(handle, kPatch, 32, kBatch, true, rng);
    net.emplace_back(handle, 32, 6, kBatch, false, rng);
    net.emplace_back(handle, 6, 32, kBatch, true, rng);
    net.emplace_back(handle, 32, kPatch, kBatch, false, rng);

    std::vector<float> h_loss(kBatch);
    int step = 0;
    for (int epoch = 0; epoch < 8; ++epoch) {
        double total = 0;
        for (int i = 0; i < kTrain; i += kBatch) {
            float* batch = data + i * kPatch;
            float* a = batch;
            for (auto& layer : net)
                a = layer.forward(a, kBatch);
            k_mse<<<(kBatch + 31) / 32, 32>>>(a, batch, dy, loss, kBatch, kPatch);
            float* g = dy;
            for (auto it = net.rbegin(); it != net.rend(); ++it)
                g = it->backward(g, kBatch);
            ++step;
            for (auto& layer : net)
                layer.adam(3e-3f, step);
            cudaMemcpy(h_loss.data(), loss, kBatch * sizeof(float), cudaMemcpyDeviceToHost);
            for (float l : h_loss)
                total += l;
        }
        printf("epoch %d reconstruction loss %.5f\n", epoch + 1, total / kTrain);
    }
    cublasDestroy(handle);
    return 0;
}
