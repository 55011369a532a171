// Denoising autoencoder. Two pinned buffers: while the GPU works on one batch the host prepares the next.
#include "dense.h"
#include <cmath>
#include <memory>
#include <random>
#include <vector>

static const int kDim = 96;
static const int kSamples = 1536;

__global__ void diff(const float *y, const float *t, float *d, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float e = y[i] - t[i];
        d[i] = e;
        atomicAdd(loss, 0.5f * e * e);
    }
}

int main(int argc, char **argv)
{
    const int batch = argc > 1 ? std::atoi(argv[1]) : 48;
    const int steps = 128;
    std::mt19937 rng(5);
    std::uniform_real_distribution<float> uni(0, 1);
    std::vector<float> data(kSamples * kDim);
    for (int s = 0; s < kSamples; ++s) {
        float f = 1 + 3 * uni(rng), ph = 6.28f * uni(rng), c = uni(rng);
        for (int i = 0; i < kDim; ++i)
            data[s * kDim + i] = 0.5f + 0.4f * std::sin(f * i * 6.28f / kDim + ph) * (c > 0.5f ? 1.0f : 0.5f);
    }

    cublasHandle_t handle;
    CUBLAS_CALL(cublasCreate(&handle));
    cudaStream_t stream;
    CUDA_CALL(cudaStreamCreate(&stream));
    CUBLAS_CALL(cublasSetStream(handle, stream));

    std::vector<std::unique_ptr<Dense>> net;
    net.emplace_back(new Dense(handle, kDim, 40, batch, false, 1));
    net.emplace_back(new Dense(handle, 40, 12, batch, false, 2));
    net.emplace_back(new Dense(handle, 12, 40, batch, false, 3));
    net.emplace_back(new Dense(handle, 40, kDim, batch, true, 4));
    CUDA_CALL(cudaDeviceSynchronize());

    float *noisy[2], *clean[2];
    cudaEvent_t copied[2];
    for (int k = 0; k < 2; ++k) {
        CUDA_CALL(cudaHostAlloc(&noisy[k], sizeof(float) * kDim * batch, cudaHostAllocDefault));
        CUDA_CALL(cudaHostAlloc(&clean[k], sizeof(float) * kDim * batch, cudaHostAllocDefault));
        CUDA_CALL(cudaEventCreate(&copied[k]));
    }
    float *d_x, *d_t, *d_err, *d_loss;
    CUDA_CALL(cudaMalloc(&d_x, sizeof(float) * kDim * batch));
    CUDA_CALL(cudaMalloc(&d_t, sizeof(float) * kDim * batch));
    CUDA_CALL(cudaMalloc(&d_err, sizeof(float) * kDim * batch));
    CUDA_CALL(cudaMalloc(&d_loss, sizeof(float)));

    float lr = 0.02f;
    for (int step = 0; step < steps; ++step) {
        const int k = step & 1;
        CUDA_CALL(cudaEventSynchronize(copied[k]));
        for (int b = 0; b < batch; ++b) {
            const float *src = &data[(rng() % kSamples) * kDim];
            for (int i = 0; i < kDim; ++i) {
                clean[k][b * kDim + i] = src[i];
                noisy[k][b * kDim + i] = uni(rng) < 0.1f ? 0.0f : src[i];
            }
        }
        CUDA_CALL(cudaMemcpyAsync(d_x, noisy[k], sizeof(float) * kDim * batch, cudaMemcpyHostToDevice, stream));
        CUDA_CALL(cudaMemcpyAsync(d_t, clean[k], sizeof(float) * kDim * batch, cudaMemcpyHostToDevice, stream));
        CUDA_CALL(cudaEventRecord(copied[k], stream));
        CUDA_CALL(cudaMemsetAsync(d_loss, 0, sizeof(float), stream));

        const float *y = d_x;
        for (auto &l : net) y = l->forward(y, batch, stream);
        diff<<<(kDim * batch + 255) / 256, 256, 0, stream>>>(y, d_t, d_err, d_loss, kDim * batch);
        float *d = d_err;
        for (int i = (int)net.size() - 1; i >= 0; --i) d = net[i]->backward(d, batch, stream, i > 0);
        for (auto &l : net) l->step(lr, 0.9f, stream);

        if (step % 16 == 15) {
            float loss;
            CUDA_CALL(cudaMemcpyAsync(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost, stream));
            CUDA_CALL(cudaStreamSynchronize(stream));
            std::printf("[%3d] reconstruction loss %.4f  lr %.4f\n", step + 1, loss / batch, lr);
        }
        if (step == 80) lr *= 0.5f;
    }
    CUDA_CALL(cudaStreamSynchronize(stream));
    net.clear();
    cublasDestroy(handle);
    return 0;
}
