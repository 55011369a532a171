#include "mininn.h"

namespace nn {

__global__ void convForward(const float *x, const float *k, const float *b, float *y, Dim in, Dim out)
{
    const int n = blockIdx.x, f = blockIdx.y;
    for (int p = threadIdx.x; p < out.h * out.w; p += blockDim.x) {
        const int r = p / out.w, q = p % out.w;
        float a = b[f];
        for (int c = 0; c < in.c; ++c)
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j < 3; ++j)
                    a += k[((f * in.c + c) * 3 + i) * 3 + j] * x[((n * in.c + c) * in.h + r + i) * in.w + q + j];
        y[(n * out.c + f) * out.h * out.w + p] = a > 0.f ? a : 0.f;
    }
}

__global__ void reluMask(float *dy, const float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] <= 0.f)
        dy[i] = 0.f;
}

// a block for each weight, and one more per filter for the bias
__global__ void convWeights(const float *x, const float *dy, float *dk, float *db, int n, Dim in, Dim out)
{
    __shared__ float s[64];
    const int f = blockIdx.y, w = blockIdx.x;
    const int c = w / 9, i = w % 9 / 3, j = w % 3;
    float a = 0.f;
    for (int t = threadIdx.x; t < n * out.h * out.w; t += blockDim.x) {
        const int m = t / (out.h * out.w), p = t % (out.h * out.w), r = p / out.w, q = p % out.w;
        const float d = dy[(m * out.c + f) * out.h * out.w + p];
        a += w < in.c * 9 ? d * x[((m * in.c + c) * in.h + r + i) * in.w + q + j] : d;
    }
    s[threadIdx.x] = a;
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) {
        if (threadIdx.x < k)
            s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        if (w < in.c * 9)
            dk[f * in.c * 9 + w] = s[0];
        else
            db[f] = s[0];
    }
}

__global__ void convInput(const float *dy, const float *k, float *dx, Dim in, Dim out)
{
    const int n = blockIdx.x, c = blockIdx.y;
    for (int p = threadIdx.x; p < in.h * in.w; p += blockDim.x) {
        const int r = p / in.w, q = p % in.w;
        float a = 0.f;
        for (int f = 0; f < out.c; ++f)
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j < 3; ++j) {
                    const int u = r - i, v = q - j;
                    if (u >= 0 && v >= 0 && u < out.h && v < out.w)
                        a += dy[((n * out.c + f) * out.h + u) * out.w + v] * k[((f * in.c + c) * 3 + i) * 3 + j];
                }
        dx[(n * in.c + c) * in.h * in.w + p] = a;
    }
}

Conv3x3::~Conv3x3()
{
    kernel_.release();
    bias_.release();
    cudaFree(y_);
    cudaFree(dx_);
}

Dim Conv3x3::setup(Dim in, int maxBatch, std::mt19937 &rng)
{
    in_ = in;
    out_ = Dim{filters_, in.h - 2, in.w - 2};
    kernel_.allocate(filters_ * in.c * 9, std::sqrt(2.f / (in.c * 9)), rng);
    bias_.allocate(filters_, 0.f, rng);
    NN_CHECK(cudaMalloc(&y_, sizeof(float) * maxBatch * out_.size()));
    NN_CHECK(cudaMalloc(&dx_, sizeof(float) * maxBatch * in_.size()));
    return out_;
}

const float *Conv3x3::forward(const float *x, int n, cudaStream_t s)
{
    x_ = x;
    convForward<<<dim3(n, out_.c), 32, 0, s>>>(x, kernel_.data, bias_.data, y_, in_, out_);
    return y_;
}

float *Conv3x3::backward(float *dy, int n, cudaStream_t s)
{
    const int total = n * out_.size();
    reluMask<<<(total + 127) / 128, 128, 0, s>>>(dy, y_, total);
    convWeights<<<dim3(in_.c * 9 + 1, out_.c), 64, 0, s>>>(x_, dy, kernel_.grad, bias_.grad, n, in_, out_);
    convInput<<<dim3(n, in_.c), 32, 0, s>>>(dy, kernel_.data, dx_, in_, out_);
    return dx_;
}

} // namespace nn
