// conv 5x5 (6 maps, 16x16 -> 12x12), trainable 4x4 subsampling (-> 3x3), full connection to 10
#include "layer.h"
#include <cmath>
#include <cstdlib>
#include <vector>

Layer::Layer(int M, int N, int O) : M(M), N(N), O(O)
{
    std::vector<float> h_bias(N), h_weight(N * M);
    for (int i = 0; i < N; ++i) {
        h_bias[i] = 0.5f - float(rand()) / float(RAND_MAX);
        for (int j = 0; j < M; ++j)
            h_weight[i * M + j] = 0.5f - float(rand()) / float(RAND_MAX);
    }
    output = preact = bias = weight = d_output = d_preact = d_weight = d_bias = NULL;
    cudaMalloc(&output, sizeof(float) * O * BATCH);
    cudaMalloc(&preact, sizeof(float) * O * BATCH);
    if (N > 0) {
        cudaMalloc(&bias, sizeof(float) * N);
        cudaMalloc(&weight, sizeof(float) * M * N);
        cudaMalloc(&d_output, sizeof(float) * O * BATCH);
        cudaMalloc(&d_preact, sizeof(float) * O * BATCH);
        cudaMalloc(&d_weight, sizeof(float) * M * N);
        cudaMalloc(&d_bias, sizeof(float) * N);
        cudaMemcpy(bias, h_bias.data(), sizeof(float) * N, cudaMemcpyHostToDevice);
        cudaMemcpy(weight, h_weight.data(), sizeof(float) * M * N, cudaMemcpyHostToDevice);
    }
}

Layer::~Layer()
{
    cudaFree(output); cudaFree(preact); cudaFree(bias); cudaFree(weight);
    cudaFree(d_output); cudaFree(d_preact); cudaFree(d_weight); cudaFree(d_bias);
}

void Layer::bp_clear()
{
    cudaMemset(d_weight, 0, sizeof(float) * M * N);
    cudaMemset(d_bias, 0, sizeof(float) * N);
}

__global__ void apply_step_function(float *input, float *output, const int N)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x)
        output[i] = 1 / (1 + expf(-input[i]));
}

__global__ void makeError(float *err, float *output, const unsigned int *Y, const int N)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N)
        err[i] = ((i % 10) == (int)Y[i / 10] ? 1.0f : 0.0f) - output[i];
}

__global__ void apply_grad(float *p, float *grad, const int N)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x)
        p[i] += dt * grad[i];
}

__global__ void fp_c1(const float *image, float *preact, const float *weight, const float *bias)
{
    int b = blockIdx.x, t = threadIdx.x;      // 144 threads, one for each output pixel
    int y = t / 12, x = t % 12;
    for (int m = 0; m < 6; ++m) {
        float s = bias[m];
        for (int i = 0; i < 5; ++i)
            for (int j = 0; j < 5; ++j)
                s += weight[m * 25 + i * 5 + j] * image[b * 256 + (y + i) * 16 + x + j];
        preact[(b * 6 + m) * 144 + t] = s;
    }
}

__global__ void fp_s1(const float *input, float *preact, const float *weight, const float *bias)
{
    int b = blockIdx.x, t = threadIdx.x;      // 54 threads
    int m = t / 9, y = t % 9 / 3, x = t % 3;
    float s = bias[0];
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            s += weight[i * 4 + j] * input[(b * 6 + m) * 144 + (y * 4 + i) * 12 + x * 4 + j];
    preact[b * 54 + t] = s;
}

__global__ void fp_f(const float *input, float *preact, const float *weight, const float *bias)
{
    int b = blockIdx.x, t = threadIdx.x;      // 10 threads
    float s = bias[t];
    for (int i = 0; i < 54; ++i)
        s += weight[t * 54 + i] * input[b * 54 + i];
    preact[b * 10 + t] = s;
}

__global__ void bp_f(float *d_weight, float *d_bias, const float *d_preact, const float *p_output)
{
    int b = blockIdx.x, t = threadIdx.x;      // 54 threads
    for (int o = 0; o < 10; ++o)
        atomicAdd(&d_weight[o * 54 + t], d_preact[b * 10 + o] * p_output[b * 54 + t] / gridDim.x);
    if (t < 10)
        atomicAdd(&d_bias[t], d_preact[b * 10 + t] / gridDim.x);
}

__global__ void bp_output_s1(float *d_output, const float *n_weight, const float *nd_preact)
{
    int b = blockIdx.x, t = threadIdx.x;
    float s = 0;
    for (int o = 0; o < 10; ++o)
        s += n_weight[o * 54 + t] * nd_preact[b * 10 + o];
    d_output[b * 54 + t] = s;
}

__global__ void bp_preact(float *d_preact, const float *d_output, const float *preact, const int N)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x) {
        const float o = 1 / (1 + expf(-preact[i]));
        d_preact[i] = d_output[i] * o * (1 - o);
    }
}

__global__ void bp_weight_s1(float *d_weight, float *d_bias, const float *d_preact, const float *p_output)
{
    int b = blockIdx.x, t = threadIdx.x;      // 54 threads
    int m = t / 9, y = t % 9 / 3, x = t % 3;
    float d = d_preact[b * 54 + t] / gridDim.x;
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            atomicAdd(&d_weight[i * 4 + j], d * p_output[(b * 6 + m) * 144 + (y * 4 + i) * 12 + x * 4 + j]);
    atomicAdd(d_bias, d / 54.0f);
}

__global__ void bp_output_c1(float *d_output, const float *n_weight, const float *nd_preact)
{
    int b = blockIdx.x, t = threadIdx.x;      // 144 threads
    int y = t / 12, x = t % 12;
    for (int m = 0; m < 6; ++m)
        d_output[(b * 6 + m) * 144 + t] = n_weight[y % 4 * 4 + x % 4] * nd_preact[b * 54 + m * 9 + y / 4 * 3 + x / 4];
}

__global__ void bp_weight_c1(float *d_weight, float *d_bias, const float *d_preact, const float *image)
{
    int b = blockIdx.x, t = threadIdx.x;      // 150 threads, one for each weight
    int m = t / 25, i = t % 25 / 5, j = t % 5;
    float s = 0, sb = 0;
    for (int y = 0; y < 12; ++y)
        for (int x = 0; x < 12; ++x) {
            float d = d_preact[(b * 6 + m) * 144 + y * 12 + x];
            s += d * image[b * 256 + (y + i) * 16 + x + j];
            sb += d;
        }
    atomicAdd(&d_weight[t], s / 144.0f / gridDim.x);
    if (t % 25 == 0)
        atomicAdd(&d_bias[m], sb / 144.0f / gridDim.x);
}
