#include "layer.h"
#include <cstdlib>
#include <vector>

Layer::Layer(int M, int N, int O)
{
    this->M = M;
    this->N = N;
    this->O = O;

    std::vector<float> h_bias(N), h_weight(M * N);

    output = NULL; preact = NULL; bias = NULL; weight = NULL;
    d_output = NULL; d_preact = NULL; d_weight = NULL; d_bias = NULL;

    for (int i = 0; i < N; ++i) {
        h_bias[i] = 0.5f - float(rand()) / float(RAND_MAX);
        for (int j = 0; j < M; ++j)
            h_weight[i * M + j] = 0.5f - float(rand()) / float(RAND_MAX);
    }

    cudaMalloc(&output, sizeof(float) * O);
    cudaMalloc(&preact, sizeof(float) * O);
    if (N > 0) {
        cudaMalloc(&bias, sizeof(float) * N);
        cudaMalloc(&weight, sizeof(float) * M * N);
        cudaMalloc(&d_output, sizeof(float) * O);
        cudaMalloc(&d_preact, sizeof(float) * O);
        cudaMalloc(&d_weight, sizeof(float) * M * N);
        cudaMalloc(&d_bias, sizeof(float) * N);
        cudaMemcpy(bias, h_bias.data(), sizeof(float) * N, cudaMemcpyHostToDevice);
        cudaMemcpy(weight, h_weight.data(), sizeof(float) * M * N, cudaMemcpyHostToDevice);
    }
}

Layer::~Layer()
{
    cudaFree(output);
    cudaFree(preact);
    cudaFree(bias);
    cudaFree(weight);
    cudaFree(d_output);
    cudaFree(d_preact);
    cudaFree(d_weight);
    cudaFree(d_bias);
}

void Layer::setOutput(float *data) { cudaMemcpy(output, data, sizeof(float) * O, cudaMemcpyHostToDevice); }

void Layer::clear()
{
    cudaMemset(output, 0x00, sizeof(float) * O);
    cudaMemset(preact, 0x00, sizeof(float) * O);
}

void Layer::bp_clear()
{
    cudaMemset(d_output, 0x00, sizeof(float) * O);
    cudaMemset(d_preact, 0x00, sizeof(float) * O);
}

void Layer::zero_grad()
{
    cudaMemset(d_weight, 0x00, sizeof(float) * M * N);
    cudaMemset(d_bias, 0x00, sizeof(float) * N);
}

__device__ float step_function(float v) { return 1 / (1 + expf(-v)); }

__global__ void apply_step_function(float *input, float *output, int N)
{
    const int pos = blockIdx.x * blockDim.x + threadIdx.x;
    if (pos < N)
        output[pos] = step_function(input[pos]);
}

__global__ void makeError(float *err, float *output, unsigned int Y, int N)
{
    const int pos = blockIdx.x * blockDim.x + threadIdx.x;
    if (pos < N)
        err[pos] = ((Y == (unsigned)pos ? 1.0f : 0.0f) - output[pos]);
}

__global__ void apply_grad(float *output, float *grad, int N, int count)
{
    const int pos = blockIdx.x * blockDim.x + threadIdx.x;
    if (pos < N)
        output[pos] += dt / count * grad[pos];
}

__global__ void fp_preact_c1(float *input, float *preact, float *weight, float *bias)
{
    const int m = blockIdx.x, y = threadIdx.y, x = threadIdx.x;
    float s = bias[m];
    for (int i = 0; i < 5; ++i)
        for (int j = 0; j < 5; ++j)
            s += weight[m * 25 + i * 5 + j] * input[(y + i) * IMG + x + j];
    preact[(m * CONV + y) * CONV + x] = s;
}

__global__ void fp_preact_s1(float *input, float *preact, float *weight, float *bias)
{
    const int m = blockIdx.x, y = threadIdx.y, x = threadIdx.x;
    float s = bias[0];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            s += weight[i * 2 + j] * input[(m * CONV + y * 2 + i) * CONV + x * 2 + j];
    preact[(m * POOL + y) * POOL + x] = s;
}

__global__ void fp_preact_f(float *input, float *preact, float *weight, float *bias)
{
    const int k = threadIdx.x, n = MAPS * POOL * POOL;
    float s = bias[k];
    for (int i = 0; i < n; ++i)
        s += weight[k * n + i] * input[i];
    preact[k] = s;
}

__global__ void bp_weight_f(float *d_weight, float *d_bias, float *d_preact, float *p_output)
{
    const int k = blockIdx.x, i = threadIdx.x, n = MAPS * POOL * POOL;
    d_weight[k * n + i] += d_preact[k] * p_output[i];
    if (i == 0)
        d_bias[k] += d_preact[k];
}

__global__ void bp_output_s1(float *d_output, float *n_weight, float *nd_preact)
{
    const int i = threadIdx.x, n = MAPS * POOL * POOL;
    float s = 0;
    for (int k = 0; k < CLASSES; ++k)
        s += n_weight[k * n + i] * nd_preact[k];
    d_output[i] = s;
}

__global__ void bp_preact(float *d_preact, float *d_output, float *preact, int N)
{
    const int pos = blockIdx.x * blockDim.x + threadIdx.x;
    if (pos < N) {
        const float o = step_function(preact[pos]);
        d_preact[pos] = d_output[pos] * o * (1 - o);
    }
}

__global__ void bp_weight_s1(float *d_weight, float *d_bias, float *d_preact, float *p_output)
{
    const int m = blockIdx.x, y = threadIdx.y, x = threadIdx.x;
    const float d = d_preact[(m * POOL + y) * POOL + x] / (MAPS * POOL * POOL);
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            atomicAdd(&d_weight[i * 2 + j], d * p_output[(m * CONV + y * 2 + i) * CONV + x * 2 + j]);
    atomicAdd(&d_bias[0], d);
}

__global__ void bp_output_c1(float *d_output, float *n_weight, float *nd_preact)
{
    const int m = blockIdx.x, y = threadIdx.y, x = threadIdx.x;
    d_output[(m * CONV + y) * CONV + x] =
        n_weight[(y % 2) * 2 + x % 2] * nd_preact[(m * POOL + y / 2) * POOL + x / 2];
}

__global__ void bp_weight_c1(float *d_weight, float *d_bias, float *d_preact, float *p_output)
{
    const int m = blockIdx.x, i = threadIdx.y, j = threadIdx.x;
    float s = 0, b = 0;
    for (int y = 0; y < CONV; ++y)
        for (int x = 0; x < CONV; ++x) {
            const float d = d_preact[(m * CONV + y) * CONV + x];
            s += d * p_output[(y + i) * IMG + x + j];
            b += d;
        }
    d_weight[m * 25 + i * 5 + j] += s;
    if (i == 0 && j == 0)
        d_bias[m] += b;
}
