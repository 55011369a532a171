#include "layers.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

#define CUDA_OK(expr)                                                                \
    do {                                                                             \
        cudaError_t err_ = (expr);                                                   \
        if (err_ != cudaSuccess) {                                                   \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err_)); \
            std::abort();                                                            \
        }                                                                            \
    } while (0)

static const int TPB = 128;
static int blocks(int n) { return (n + TPB - 1) / TPB; }

static float *zeros(int n)
{
    float *p = nullptr;
    CUDA_OK(cudaMalloc(&p, n * sizeof(float)));
    CUDA_OK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

static float *he_init(int n, int fan_in, std::mt19937 &rng)
{
    std::normal_distribution<float> dist(0.0f, std::sqrt(2.0f / fan_in));
    std::vector<float> h(n);
    for (float &w : h)
        w = dist(rng);
    float *p = zeros(n);
    CUDA_OK(cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    return p;
}

__global__ void sgd_momentum(float *w, const float *dw, float *v, float lr, float momentum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        v[i] = momentum * v[i] + dw[i];
        w[i] -= lr * v[i];
    }
}

// ---------------------------------------------------------------- convolution, no padding, stride 1

__global__ void conv_forward(const float *x, const float *w, const float *b, float *y, int N, int C, int H, int W, int K,
                             int R)
{
    int OH = H - R + 1, OW = W - R + 1;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * K * OH * OW)
        return;
    int ow = i % OW, oh = i / OW % OH, k = i / (OW * OH) % K, n = i / (OW * OH * K);
    float s = b[k];
    for (int c = 0; c < C; ++c)
        for (int r = 0; r < R; ++r)
            for (int q = 0; q < R; ++q)
                s += x[((n * C + c) * H + oh + r) * W + ow + q] * w[((k * C + c) * R + r) * R + q];
    y[i] = s;
}

// One block for each weight; the last block column holds the biases
__global__ void conv_backward_weights(const float *x, const float *dy, float *dw, float *db, int N, int C, int H, int W,
                                      int K, int R)
{
    __shared__ float part[TPB];
    int OH = H - R + 1, OW = W - R + 1;
    int total = N * OH * OW;
    int weight = blockIdx.x, weights = K * C * R * R;
    bool is_bias = weight >= weights;
    int k = is_bias ? weight - weights : weight / (C * R * R);
    int c = weight / (R * R) % C, r = weight / R % R, q = weight % R;
    float s = 0;
    for (int i = threadIdx.x; i < total; i += blockDim.x) {
        int ow = i % OW, oh = i / OW % OH, n = i / (OW * OH);
        float g = dy[((n * K + k) * OH + oh) * OW + ow];
        s += is_bias ? g : g * x[((n * C + c) * H + oh + r) * W + ow + q];
    }
    part[threadIdx.x] = s;
    __syncthreads();
    for (int h = TPB / 2; h > 0; h /= 2) {
        if (threadIdx.x < h)
            part[threadIdx.x] += part[threadIdx.x + h];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        if (is_bias)
            db[k] = part[0];
        else
            dw[weight] = part[0];
    }
}

__global__ void conv_backward_input(const float *w, const float *dy, float *dx, int N, int C, int H, int W, int K, int R)
{
    int OH = H - R + 1, OW = W - R + 1;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * C * H * W)
        return;
    int x = i % W, y = i / W % H, c = i / (W * H) % C, n = i / (W * H * C);
    float s = 0;
    for (int k = 0; k < K; ++k)
        for (int r = 0; r < R; ++r)
            for (int q = 0; q < R; ++q) {
                int oh = y - r, ow = x - q;
                if (oh >= 0 && oh < OH && ow >= 0 && ow < OW)
                    s += dy[((n * K + k) * OH + oh) * OW + ow] * w[((k * C + c) * R + r) * R + q];
            }
    dx[i] = s;
}

Conv2D::Conv2D(int batch, int in_channels, int height, int width, int out_channels, int kernel, std::mt19937 &rng)
    : N(batch), C(in_channels), H(height), W(width), K(out_channels), R(kernel), OH(height - kernel + 1),
      OW(width - kernel + 1)
{
    int n = K * C * R * R;
    weights = he_init(n, C * R * R, rng);
    bias = zeros(K);
    d_weights = zeros(n);
    d_bias = zeros(K);
    v_weights = zeros(n);
    v_bias = zeros(K);
    output = zeros(N * K * OH * OW);
    d_input = zeros(N * C * H * W);
}

Conv2D::~Conv2D()
{
    for (float *p : {weights, bias, d_weights, d_bias, v_weights, v_bias, output, d_input})
        cudaFree(p);
}

float *Conv2D::forward(const float *input)
{
    input_ = input;
    conv_forward<<<blocks(N * K * OH * OW), TPB>>>(input, weights, bias, output, N, C, H, W, K, R);
    return output;
}

float *Conv2D::backward(const float *grad_output)
{
    conv_backward_weights<<<K * C * R * R + K, TPB>>>(input_, grad_output, d_weights, d_bias, N, C, H, W, K, R);
    conv_backward_input<<<blocks(N * C * H * W), TPB>>>(weights, grad_output, d_input, N, C, H, W, K, R);
    return d_input;
}

void Conv2D::update(float lr, float momentum)
{
    int n = K * C * R * R;
    sgd_momentum<<<blocks(n), TPB>>>(weights, d_weights, v_weights, lr, momentum, n);
    sgd_momentum<<<blocks(K), TPB>>>(bias, d_bias, v_bias, lr, momentum, K);
}

// ---------------------------------------------------------------- activation

__global__ void relu_forward(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] > 0 ? x[i] : 0;
}

__global__ void relu_backward(const float *y, const float *dy, float *dx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dx[i] = y[i] > 0 ? dy[i] : 0;
}

ReLU::ReLU(int size) : size(size), output(zeros(size)), d_input(zeros(size)) {}
ReLU::~ReLU()
{
    cudaFree(output);
    cudaFree(d_input);
}
float *ReLU::forward(const float *input)
{
    relu_forward<<<blocks(size), TPB>>>(input, output, size);
    return output;
}
float *ReLU::backward(const float *grad_output)
{
    relu_backward<<<blocks(size), TPB>>>(output, grad_output, d_input, size);
    return d_input;
}

// ---------------------------------------------------------------- 2x2 pooling

__global__ void pool_forward(const float *x, float *y, int *argmax, int planes, int H, int W)
{
    int OH = H / 2, OW = W / 2;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= planes * OH * OW)
        return;
    int ow = i % OW, oh = i / OW % OH, p = i / (OW * OH);
    int best = (p * H + 2 * oh) * W + 2 * ow;
    for (int d = 1; d < 4; ++d) {
        int j = (p * H + 2 * oh + d / 2) * W + 2 * ow + d % 2;
        if (x[j] > x[best])
            best = j;
    }
    y[i] = x[best];
    argmax[i] = best;
}

__global__ void pool_backward(const float *dy, const int *argmax, float *dx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dx[argmax[i]] = dy[i];
}

MaxPool2D::MaxPool2D(int batch, int channels, int height, int width) : planes(batch * channels), H(height), W(width)
{
    int n = planes * (H / 2) * (W / 2);
    CUDA_OK(cudaMalloc(&argmax, n * sizeof(int)));
    output = zeros(n);
    d_input = zeros(planes * H * W);
}
MaxPool2D::~MaxPool2D()
{
    cudaFree(argmax);
    cudaFree(output);
    cudaFree(d_input);
}
float *MaxPool2D::forward(const float *input)
{
    pool_forward<<<blocks(planes * (H / 2) * (W / 2)), TPB>>>(input, output, argmax, planes, H, W);
    return output;
}
float *MaxPool2D::backward(const float *grad_output)
{
    int n = planes * (H / 2) * (W / 2);
    CUDA_OK(cudaMemset(d_input, 0, planes * H * W * sizeof(float)));
    pool_backward<<<blocks(n), TPB>>>(grad_output, argmax, d_input, n);
    return d_input;
}

// ---------------------------------------------------------------- fully connected

__global__ void dense_forward(const float *x, const float *w, const float *b, float *y, int N, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * out)
        return;
    int n = i / out, o = i % out;
    float s = b[o];
    for (int j = 0; j < in; ++j)
        s += x[n * in + j] * w[j * out + o];
    y[i] = s;
}

__global__ void dense_backward_weights(const float *x, const float *dy, float *dw, float *db, int N, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < in * out) {
        int j = i / out, o = i % out;
        float s = 0;
        for (int n = 0; n < N; ++n)
            s += x[n * in + j] * dy[n * out + o];
        dw[i] = s;
    }
    if (i < out) {
        float s = 0;
        for (int n = 0; n < N; ++n)
            s += dy[n * out + i];
        db[i] = s;
    }
}

__global__ void dense_backward_input(const float *w, const float *dy, float *dx, int N, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * in)
        return;
    int n = i / in, j = i % in;
    float s = 0;
    for (int o = 0; o < out; ++o)
        s += dy[n * out + o] * w[j * out + o];
    dx[i] = s;
}

Dense::Dense(int batch, int in, int out, std::mt19937 &rng) : N(batch), in(in), out(out)
{
    weights = he_init(in * out, in, rng);
    bias = zeros(out);
    d_weights = zeros(in * out);
    d_bias = zeros(out);
    v_weights = zeros(in * out);
    v_bias = zeros(out);
    output = zeros(N * out);
    d_input = zeros(N * in);
}
Dense::~Dense()
{
    for (float *p : {weights, bias, d_weights, d_bias, v_weights, v_bias, output, d_input})
        cudaFree(p);
}
float *Dense::forward(const float *input)
{
    input_ = input;
    dense_forward<<<blocks(N * out), TPB>>>(input, weights, bias, output, N, in, out);
    return output;
}
float *Dense::backward(const float *grad_output)
{
    dense_backward_weights<<<blocks(in * out), TPB>>>(input_, grad_output, d_weights, d_bias, N, in, out);
    dense_backward_input<<<blocks(N * in), TPB>>>(weights, grad_output, d_input, N, in, out);
    return d_input;
}
void Dense::update(float lr, float momentum)
{
    sgd_momentum<<<blocks(in * out), TPB>>>(weights, d_weights, v_weights, lr, momentum, in * out);
    sgd_momentum<<<blocks(out), TPB>>>(bias, d_bias, v_bias, lr, momentum, out);
}

// ---------------------------------------------------------------- loss

__global__ void softmax_xent(const float *z, const int *labels, float *dz, float *loss, int N, int classes)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N)
        return;
    float m = z[n * classes], sum = 0;
    for (int c = 1; c < classes; ++c)
        m = fmaxf(m, z[n * classes + c]);
    for (int c = 0; c < classes; ++c)
        sum += expf(z[n * classes + c] - m);
    for (int c = 0; c < classes; ++c) {
        float p = expf(z[n * classes + c] - m) / sum;
        dz[n * classes + c] = (p - (c == labels[n])) / N;
        if (c == labels[n])
            loss[n] = -logf(p + 1e-9f);
    }
}

SoftmaxCrossEntropy::SoftmaxCrossEntropy(int batch, int classes)
    : N(batch), classes(classes), d_logits(zeros(batch * classes)), losses(zeros(batch))
{
}
SoftmaxCrossEntropy::~SoftmaxCrossEntropy()
{
    cudaFree(d_logits);
    cudaFree(losses);
}
float SoftmaxCrossEntropy::loss(const float *logits, const int *labels)
{
    softmax_xent<<<blocks(N), TPB>>>(logits, labels, d_logits, losses, N, classes);
    std::vector<float> h(N);
    CUDA_OK(cudaMemcpy(h.data(), losses, N * sizeof(float), cudaMemcpyDeviceToHost));
    float s = 0;
    for (float l : h)
        s += l;
    return s / N;
}
