#include "linear_layer.hh"
#include "nn_utils/nn_exception.hh"
#include <cmath>
#include <random>

// samples are rows here: A is (batch x in), W is (in x out)
__global__ void linearLayerForward(float *W, float *A, float *Z, float *b, int W_x, int W_y, int rows)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && col < W_y) {
        float Z_value = 0;
        for (int i = 0; i < W_x; i++) Z_value += A[row * W_x + i] * W[i * W_y + col];
        Z[row * W_y + col] = Z_value + b[col];
    }
}

__global__ void linearLayerBackprop(float *W, float *dZ, float *dA, int W_x, int W_y, int rows)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && col < W_x) {
        float dA_value = 0.0f;
        for (int i = 0; i < W_y; i++) dA_value += dZ[row * W_y + i] * W[col * W_y + i];
        dA[row * W_x + col] = dA_value;
    }
}

__global__ void linearLayerUpdateWeights(float *dZ, float *A, float *W, int W_x, int W_y, int rows, float learning_rate)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < W_x && col < W_y) {
        float dW_value = 0.0f;
        for (int i = 0; i < rows; i++) dW_value += A[i * W_x + row] * dZ[i * W_y + col];
        W[row * W_y + col] = W[row * W_y + col] - learning_rate * (dW_value / rows);
    }
}

__global__ void linearLayerUpdateBias(float *dZ, float *b, int W_y, int rows, float learning_rate)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < rows * W_y) {
        int col = index % W_y;
        atomicAdd(&b[col], -learning_rate * (dZ[index] / rows));
    }
}

LinearLayer::LinearLayer(std::string name, Shape W_shape) : W(W_shape), b(W_shape.y, 1)
{
    this->name = name;
    b.allocateMemory();
    W.allocateMemory();
    initializeBiasWithZeros();
    initializeWeightsRandomly();
}

void LinearLayer::initializeWeightsRandomly()
{
    static std::default_random_engine generator(1);
    std::normal_distribution<float> normal_distribution(0.0, 1.0);
    for (size_t i = 0; i < W.shape.x * W.shape.y; i++) W[i] = normal_distribution(generator) * std::sqrt(2.f / W.shape.x);
    W.copyHostToDevice();
}

void LinearLayer::initializeBiasWithZeros()
{
    for (size_t x = 0; x < b.shape.x; x++) b[x] = 0;
    b.copyHostToDevice();
}

Matrix &LinearLayer::forward(Matrix &A)
{
    this->A = A;
    Z.allocateMemoryIfNotAllocated(Shape(A.shape.x, W.shape.y));
    dim3 block_size(8, 8), blocks((W.shape.y + 7) / 8, (A.shape.x + 7) / 8);
    linearLayerForward<<<blocks, block_size>>>(W.data_device.get(), A.data_device.get(), Z.data_device.get(), b.data_device.get(), W.shape.x, W.shape.y, A.shape.x);
    NNException::throwIfDeviceErrorsOccurred("Cannot perform linear layer forward propagation.");
    return Z;
}

Matrix &LinearLayer::backprop(Matrix &dZ, float learning_rate)
{
    dA.allocateMemoryIfNotAllocated(A.shape);
    dim3 block_size(8, 8), blocks((W.shape.x + 7) / 8, (A.shape.x + 7) / 8);
    linearLayerBackprop<<<blocks, block_size>>>(W.data_device.get(), dZ.data_device.get(), dA.data_device.get(), W.shape.x, W.shape.y, A.shape.x);
    NNException::throwIfDeviceErrorsOccurred("Cannot perform back propagation.");
    int n = dZ.shape.x * dZ.shape.y;
    linearLayerUpdateBias<<<(n + 255) / 256, 256>>>(dZ.data_device.get(), b.data_device.get(), W.shape.y, dZ.shape.x, learning_rate);
    NNException::throwIfDeviceErrorsOccurred("Cannot perform bias update.");
    dim3 wblocks((W.shape.y + 7) / 8, (W.shape.x + 7) / 8);
    linearLayerUpdateWeights<<<wblocks, block_size>>>(dZ.data_device.get(), A.data_device.get(), W.data_device.get(), W.shape.x, W.shape.y, A.shape.x, learning_rate);
    NNException::throwIfDeviceErrorsOccurred("Cannot perform weights update.");
    return dA;
}
