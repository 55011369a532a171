#include "mininn.h"

namespace nn {

__global__ void denseForward(const float *x, const float *w, const float *b, float *y, int in, int out, int n)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * out)
        return;
    const int s = t / out, o = t % out;
    float a = b[o];
    for (int i = 0; i < in; ++i)
        a += w[i * out + o] * x[s * in + i];
    y[t] = a;
}

__global__ void denseWeights(const float *x, const float *dy, float *dw, float *db, int in, int out, int n)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= (in + 1) * out)
        return;
    const int i = t / out, o = t % out;
    float a = 0.f;
    for (int s = 0; s < n; ++s)
        a += (i < in ? x[s * in + i] : 1.f) * dy[s * out + o];
    if (i < in)
        dw[t] = a;
    else
        db[o] = a;
}

__global__ void denseInput(const float *dy, const float *w, float *dx, int in, int out, int n)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * in)
        return;
    const int s = t / in, i = t % in;
    float a = 0.f;
    for (int o = 0; o < out; ++o)
        a += dy[s * out + o] * w[i * out + o];
    dx[t] = a;
}

Dense::~Dense()
{
    weight_.release();
    bias_.release();
    cudaFree(y_);
    cudaFree(dx_);
}

Dim Dense::setup(Dim in, int maxBatch, std::mt19937 &rng)
{
    in_ = in.size();
    weight_.allocate(in_ * units_, std::sqrt(1.f / in_), rng);
    bias_.allocate(units_, 0.f, rng);
    NN_CHECK(cudaMalloc(&y_, sizeof(float) * maxBatch * units_));
    NN_CHECK(cudaMalloc(&dx_, sizeof(float) * maxBatch * in_));
    return Dim{units_, 1, 1};
}

const float *Dense::forward(const float *x, int n, cudaStream_t s)
{
    x_ = x;
    denseForward<<<(n * units_ + 127) / 128, 128, 0, s>>>(x, weight_.data, bias_.data, y_, in_, units_, n);
    return y_;
}

float *Dense::backward(float *dy, int n, cudaStream_t s)
{
    denseWeights<<<((in_ + 1) * units_ + 127) / 128, 128, 0, s>>>(x_, dy, weight_.grad, bias_.grad, in_, units_, n);
    denseInput<<<(n * in_ + 127) / 128, 128, 0, s>>>(dy, weight_.data, dx_, in_, units_, n);
    return dx_;
}

} // namespace nn
