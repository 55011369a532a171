#include "mininn.h"

namespace nn {

__global__ void poolForward(const float *x, float *y, unsigned char *arg, Dim in, Dim out, int total)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= total)
        return;
    const int plane = t / (out.h * out.w), p = t % (out.h * out.w), r = p / out.w, q = p % out.w;
    float best = -1e30f;
    for (int k = 0; k < 4; ++k) {
        const float v = x[(plane * in.h + 2 * r + k / 2) * in.w + 2 * q + k % 2];
        if (v > best) {
            best = v;
            arg[t] = k;
        }
    }
    y[t] = best;
}

__global__ void poolBackward(const float *dy, float *dx, const unsigned char *arg, Dim in, Dim out, int total)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= total)
        return;
    const int plane = t / (out.h * out.w), p = t % (out.h * out.w), r = p / out.w, q = p % out.w;
    for (int k = 0; k < 4; ++k)
        dx[(plane * in.h + 2 * r + k / 2) * in.w + 2 * q + k % 2] = arg[t] == k ? dy[t] : 0.f;
}

MaxPool2::~MaxPool2()
{
    cudaFree(y_);
    cudaFree(dx_);
    cudaFree(arg_);
}

Dim MaxPool2::setup(Dim in, int maxBatch, std::mt19937 &)
{
    in_ = in;
    out_ = Dim{in.c, in.h / 2, in.w / 2};
    NN_CHECK(cudaMalloc(&y_, sizeof(float) * maxBatch * out_.size()));
    NN_CHECK(cudaMalloc(&dx_, sizeof(float) * maxBatch * in_.size()));
    NN_CHECK(cudaMemset(dx_, 0, sizeof(float) * maxBatch * in_.size()));
    NN_CHECK(cudaMalloc(&arg_, maxBatch * out_.size()));
    return out_;
}

const float *MaxPool2::forward(const float *x, int n, cudaStream_t s)
{
    const int total = n * out_.size();
    poolForward<<<(total + 127) / 128, 128, 0, s>>>(x, y_, arg_, in_, out_, total);
    return y_;
}

float *MaxPool2::backward(float *dy, int n, cudaStream_t s)
{
    const int total = n * out_.size();
    poolBackward<<<(total + 127) / 128, 128, 0, s>>>(dy, dx_, arg_, in_, out_, total);
    return dx_;
}

} // namespace nn
