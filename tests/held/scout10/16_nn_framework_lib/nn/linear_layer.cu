#include "layers.hh"
#include <cassert>
#include <cmath>
#include <random>

__global__ void linearLayerForward(float* W, float* A, float* Z, float* b, int W_x, int W_y, int A_y) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < A_y && col < W_y) {
        float Z_value = 0;
        for (int i = 0; i < W_x; i++) Z_value += W[col * W_x + i] * A[row * W_x + i];
        Z[row * W_y + col] = Z_value + b[col];
    }
}
__global__ void linearLayerBackprop(float* W, float* dZ, float* dA, int W_x, int W_y, int dZ_y) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < dZ_y && col < W_x) {
        float dA_value = 0;
        for (int i = 0; i < W_y; i++) dA_value += W[i * W_x + col] * dZ[row * W_y + i];
        dA[row * W_x + col] = dA_value;
    }
}
__global__ void linearLayerUpdateWeights(float* dZ, float* A, float* W, int W_x, int W_y, int A_y, float learning_rate) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < W_y && col < W_x) {
        float dW_value = 0;
        for (int i = 0; i < A_y; i++) dW_value += dZ[i * W_y + row] * A[i * W_x + col];
        W[row * W_x + col] -= learning_rate * (dW_value / A_y);
    }
}
__global__ void linearLayerUpdateBias(float* dZ, float* b, int dZ_x, int dZ_y, float learning_rate) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < dZ_x * dZ_y) atomicAdd(&b[index % dZ_x], -learning_rate * (dZ[index] / dZ_y));
}

LinearLayer::LinearLayer(Shape W_shape) : W(W_shape), b(W_shape.y, 1) { initialize(); }
void LinearLayer::initialize() {
    W.allocateMemory();
    b.allocateMemory();
    static std::default_random_engine generator(3);
    std::normal_distribution<float> normal(0.0f, std::sqrt(2.0f / W.shape.x));
    for (size_t i = 0; i < W.shape.x * W.shape.y; i++) W[i] = normal(generator);
    W.copyHostToDevice();
    b.copyHostToDevice();
}
Matrix& LinearLayer::forward(Matrix& A) {
    assert(W.shape.x == A.shape.x);
    this->A = A;
    Z.allocateMemoryIfNotAllocated(Shape(W.shape.y, A.shape.y));
    dim3 block(8, 8), grid((W.shape.y + 7) / 8, (A.shape.y + 7) / 8);
    linearLayerForward<<<grid, block>>>(W.data_device.get(), A.data_device.get(), Z.data_device.get(), b.data_device.get(),
                                        W.shape.x, W.shape.y, A.shape.y);
    throwIfDeviceErrorsOccurred("Cannot perform linear layer forward");
    return Z;
}
Matrix& LinearLayer::backprop(Matrix& dZ, float learning_rate) {
    dA.allocateMemoryIfNotAllocated(A.shape);
    dim3 block(8, 8), gridA((W.shape.x + 7) / 8, (dZ.shape.y + 7) / 8), gridW((W.shape.x + 7) / 8, (W.shape.y + 7) / 8);
    linearLayerBackprop<<<gridA, block>>>(W.data_device.get(), dZ.data_device.get(), dA.data_device.get(), W.shape.x, W.shape.y,
                                          dZ.shape.y);
    linearLayerUpdateBias<<<(dZ.shape.x * dZ.shape.y + 255) / 256, 256>>>(dZ.data_device.get(), b.data_device.get(), dZ.shape.x,
                                                                          dZ.shape.y, learning_rate);
    linearLayerUpdateWeights<<<gridW, block>>>(dZ.data_device.get(), A.data_device.get(), W.data_device.get(), W.shape.x,
                                               W.shape.y, A.shape.y, learning_rate);
    throwIfDeviceErrorsOccurred("Cannot perform back propagation");
    return dA;
}
