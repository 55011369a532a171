#include "mininn.h"

namespace nn {

__global__ void softmaxLoss(const float *logits, const int *labels, float *grad, float *stats, int classes, int n)
{
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n)
        return;
    const float *z = logits + s * classes;
    int top = 0;
    for (int c = 1; c < classes; ++c)
        if (z[c] > z[top])
            top = c;
    float sum = 0.f;
    for (int c = 0; c < classes; ++c)
        sum += expf(z[c] - z[top]);
    const float inv = 1.f / n;
    for (int c = 0; c < classes; ++c)
        grad[s * classes + c] = inv * (expf(z[c] - z[top]) / sum - (c == labels[s]));
    stats[s] = logf(sum) + z[top] - z[labels[s]];
    stats[n + s] = top == labels[s];
}

SoftmaxLoss::SoftmaxLoss(int classes, int maxBatch) : classes_(classes), host_(2 * maxBatch)
{
    NN_CHECK(cudaMalloc(&grad_, sizeof(float) * maxBatch * classes));
    NN_CHECK(cudaMalloc(&stats_, sizeof(float) * 2 * maxBatch));
}

SoftmaxLoss::~SoftmaxLoss()
{
    cudaFree(grad_);
    cudaFree(stats_);
}

float *SoftmaxLoss::compute(const float *logits, const int *labels, int n, cudaStream_t s)
{
    softmaxLoss<<<(n + 63) / 64, 64, 0, s>>>(logits, labels, grad_, stats_, classes_, n);
    return grad_;
}

float SoftmaxLoss::loss(int n, cudaStream_t s)
{
    NN_CHECK(cudaMemcpyAsync(host_.data(), stats_, sizeof(float) * n, cudaMemcpyDeviceToHost, s));
    NN_CHECK(cudaStreamSynchronize(s));
    float sum = 0.f;
    for (int i = 0; i < n; ++i)
        sum += host_[i];
    return sum / n;
}

float SoftmaxLoss::accuracy(int n, cudaStream_t s)
{
    NN_CHECK(cudaMemcpyAsync(host_.data(), stats_ + n, sizeof(float) * n, cudaMemcpyDeviceToHost, s));
    NN_CHECK(cudaStreamSynchronize(s));
    float sum = 0.f;
    for (int i = 0; i < n; ++i)
        sum += host_[i];
    return sum / n;
}

} // namespace nn
