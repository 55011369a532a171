#include "layer.h"

#include <cmath>

void Param::create(const std::vector<float> &init)
{
    size = (int)init.size();
    CUDA_CHECK(cudaMalloc(&value, size * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&grad, size * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&m, size * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&v, size * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(value, init.data(), size * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(m, 0, size * sizeof(float)));
    CUDA_CHECK(cudaMemset(v, 0, size * sizeof(float)));
}

Param::~Param()
{
    cudaFree(value);
    cudaFree(grad);
    cudaFree(m);
    cudaFree(v);
}

static std::vector<float> heNormal(int n, int fanIn, std::mt19937 &rng)
{
    std::normal_distribution<float> d(0.0f, std::sqrt(2.0f / fanIn));
    std::vector<float> v(n);
    for (float &x : v)
        x = d(rng);
    return v;
}

// ---------------------------------------------------------------- convolution

__global__ void convForward(const float *x, const float *w, const float *b, float *y, int batch, int inC, int outC,
                            int size, int k, int os)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= batch * outC * os * os)
        return;
    int col = t % os, row = t / os % os, oc = t / (os * os) % outC, n = t / (os * os * outC);
    float s = b[oc];
    for (int ic = 0; ic < inC; ++ic)
        for (int i = 0; i < k; ++i)
            for (int j = 0; j < k; ++j)
                s += x[((n * inC + ic) * size + row + i) * size + col + j] * w[((oc * inC + ic) * k + i) * k + j];
    y[t] = s;
}

__global__ void convBackwardWeight(const float *x, const float *gy, float *gw, int batch, int inC, int outC, int size,
                                   int k, int os)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= outC * inC * k * k)
        return;
    int j = t % k, i = t / k % k, ic = t / (k * k) % inC, oc = t / (k * k * inC);
    float s = 0;
    for (int n = 0; n < batch; ++n)
        for (int r = 0; r < os; ++r)
            for (int c = 0; c < os; ++c)
                s += x[((n * inC + ic) * size + r + i) * size + c + j] * gy[((n * outC + oc) * os + r) * os + c];
    gw[t] = s;
}

__global__ void convBackwardBias(const float *gy, float *gb, int batch, int outC, int os)
{
    int oc = blockIdx.x * blockDim.x + threadIdx.x;
    if (oc >= outC)
        return;
    float s = 0;
    for (int n = 0; n < batch; ++n)
        for (int i = 0; i < os * os; ++i)
            s += gy[(n * outC + oc) * os * os + i];
    gb[oc] = s;
}

__global__ void convBackwardInput(const float *gy, const float *w, float *gx, int batch, int inC, int outC, int size,
                                  int k, int os)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= batch * inC * size * size)
        return;
    int col = t % size, row = t / size % size, ic = t / (size * size) % inC, n = t / (size * size * inC);
    float s = 0;
    for (int oc = 0; oc < outC; ++oc)
        for (int i = 0; i < k; ++i)
            for (int j = 0; j < k; ++j) {
                int r = row - i, c = col - j;
                if (r >= 0 && r < os && c >= 0 && c < os)
                    s += gy[((n * outC + oc) * os + r) * os + c] * w[((oc * inC + ic) * k + i) * k + j];
            }
    gx[t] = s;
}

Conv::Conv(int inC_, int outC_, int size_, int kernel, int maxBatch, std::mt19937 &rng)
    : inC(inC_), outC(outC_), size(size_), k(kernel), outSize(size_ - kernel + 1)
{
    weight.create(heNormal(outC * inC * k * k, inC * k * k, rng));
    bias.create(std::vector<float>(outC, 0.0f));
    CUDA_CHECK(cudaMalloc(&out, maxBatch * outC * outSize * outSize * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&gradIn, maxBatch * inC * size * size * sizeof(float)));
}

Conv::~Conv()
{
    cudaFree(out);
    cudaFree(gradIn);
}

float *Conv::forward(float *input, int batch)
{
    in = input;
    int n = batch * outC * outSize * outSize;
    convForward<<<divUp(n, 256), 256>>>(in, weight.value, bias.value, out, batch, inC, outC, size, k, outSize);
    return out;
}

float *Conv::backward(float *gradOutput, int batch)
{
    convBackwardWeight<<<divUp(weight.size, 32), 32>>>(in, gradOutput, weight.grad, batch, inC, outC, size, k, outSize);
    convBackwardBias<<<divUp(outC, 32), 32>>>(gradOutput, bias.grad, batch, outC, outSize);
    convBackwardInput<<<divUp(batch * inC * size * size, 256), 256>>>(gradOutput, weight.value, gradIn, batch, inC,
                                                                      outC, size, k, outSize);
    return gradIn;
}

// ----------------------------------------------------------------------- relu

__global__ void reluForward(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = fmaxf(x[i], 0.0f);
}

__global__ void reluBackward(const float *y, const float *gy, float *gx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        gx[i] = y[i] > 0.0f ? gy[i] : 0.0f;
}

ReLU::ReLU(int n_, int maxBatch) : n(n_)
{
    CUDA_CHECK(cudaMalloc(&out, maxBatch * n * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&gradIn, maxBatch * n * sizeof(float)));
}

ReLU::~ReLU()
{
    cudaFree(out);
    cudaFree(gradIn);
}

float *ReLU::forward(float *input, int batch)
{
    reluForward<<<divUp(batch * n, 256), 256>>>(input, out, batch * n);
    return out;
}

float *ReLU::backward(float *gradOutput, int batch)
{
    reluBackward<<<divUp(batch * n, 256), 256>>>(out, gradOutput, gradIn, batch * n);
    return gradIn;
}

// -------------------------------------------------------------------- pooling

__global__ void poolForward(const float *x, float *y, int *arg, int planes, int size, int os)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= planes * os * os)
        return;
    int c = t % os, r = t / os % os, p = t / (os * os);
    int best = (p * size + 2 * r) * size + 2 * c;
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            int at = (p * size + 2 * r + i) * size + 2 * c + j;
            if (x[at] > x[best])
                best = at;
        }
    y[t] = x[best];
    arg[t] = best;
}

__global__ void poolBackward(const float *gy, const int *arg, float *gx, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n)
        gx[arg[t]] = gy[t];
}

MaxPool::MaxPool(int channels, int size_, int maxBatch) : c(channels), size(size_), outSize(size_ / 2)
{
    CUDA_CHECK(cudaMalloc(&out, maxBatch * c * outSize * outSize * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&argmax, maxBatch * c * outSize * outSize * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&gradIn, maxBatch * c * size * size * sizeof(float)));
}

MaxPool::~MaxPool()
{
    cudaFree(out);
    cudaFree(argmax);
    cudaFree(gradIn);
}

float *MaxPool::forward(float *input, int batch)
{
    int n = batch * c * outSize * outSize;
    poolForward<<<divUp(n, 256), 256>>>(input, out, argmax, batch * c, size, outSize);
    return out;
}

float *MaxPool::backward(float *gradOutput, int batch)
{
    int n = batch * c * outSize * outSize;
    CUDA_CHECK(cudaMemset(gradIn, 0, batch * c * size * size * sizeof(float)));
    poolBackward<<<divUp(n, 256), 256>>>(gradOutput, argmax, gradIn, n);
    return gradIn;
}

// ---------------------------------------------------------------------- dense

__global__ void denseForward(const float *x, const float *w, const float *b, float *y, int batch, int nin, int nout)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= batch * nout)
        return;
    int o = t % nout, n = t / nout;
    float s = b[o];
    for (int i = 0; i < nin; ++i)
        s += x[n * nin + i] * w[o * nin + i];
    y[t] = s;
}

__global__ void denseBackwardParams(const float *x, const float *gy, float *gw, float *gb, int batch, int nin, int nout)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= nin * nout)
        return;
    int i = t % nin, o = t / nin;
    float s = 0, sb = 0;
    for (int n = 0; n < batch; ++n) {
        s += x[n * nin + i] * gy[n * nout + o];
        sb += gy[n * nout + o];
    }
    gw[t] = s;
    if (i == 0)
        gb[o] = sb;
}

__global__ void denseBackwardInput(const float *gy, const float *w, float *gx, int batch, int nin, int nout)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= batch * nin)
        return;
    int i = t % nin, n = t / nin;
    float s = 0;
    for (int o = 0; o < nout; ++o)
        s += gy[n * nout + o] * w[o * nin + i];
    gx[t] = s;
}

Dense::Dense(int in_, int out_, int maxBatch, std::mt19937 &rng) : nin(in_), nout(out_)
{
    weight.create(heNormal(nin * nout, nin, rng));
    bias.create(std::vector<float>(nout, 0.0f));
    CUDA_CHECK(cudaMalloc(&out, maxBatch * nout * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&gradIn, maxBatch * nin * sizeof(float)));
}

Dense::~Dense()
{
    cudaFree(out);
    cudaFree(gradIn);
}

float *Dense::forward(float *input, int batch)
{
    in = input;
    denseForward<<<divUp(batch * nout, 128), 128>>>(in, weight.value, bias.value, out, batch, nin, nout);
    return out;
}

float *Dense::backward(float *gradOutput, int batch)
{
    denseBackwardParams<<<divUp(nin * nout, 128), 128>>>(in, gradOutput, weight.grad, bias.grad, batch, nin, nout);
    denseBackwardInput<<<divUp(batch * nin, 128), 128>>>(gradOutput, weight.value, gradIn, batch, nin, nout);
    return gradIn;
}
