#include "layers.hh"

__global__ void reluForward(float* Z, float* A, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) A[i] = fmaxf(Z[i], 0);
}
__global__ void reluBackprop(float* Z, float* dA, float* dZ, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dZ[i] = Z[i] > 0 ? dA[i] : 0;
}
__global__ void sigmoidForward(float* Z, float* A, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) A[i] = 1.0f / (1 + expf(-Z[i]));
}
__global__ void sigmoidBackprop(float* Z, float* dA, float* dZ, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float s = 1.0f / (1 + expf(-Z[i]));
        dZ[i] = dA[i] * s * (1 - s);
    }
}
#define SIZE(M) (int)((M).shape.x * (M).shape.y)
#define GRID(M) (SIZE(M) + 255) / 256, 256

Matrix& ReLUActivation::forward(Matrix& Z) {
    this->Z = Z;
    A.allocateMemoryIfNotAllocated(Z.shape);
    reluForward<<<GRID(Z)>>>(Z.data_device.get(), A.data_device.get(), SIZE(Z));
    return A;
}
Matrix& ReLUActivation::backprop(Matrix& dA, float) {
    dZ.allocateMemoryIfNotAllocated(Z.shape);
    reluBackprop<<<GRID(Z)>>>(Z.data_device.get(), dA.data_device.get(), dZ.data_device.get(), SIZE(Z));
    return dZ;
}
Matrix& SigmoidActivation::forward(Matrix& Z) {
    this->Z = Z;
    A.allocateMemoryIfNotAllocated(Z.shape);
    sigmoidForward<<<GRID(Z)>>>(Z.data_device.get(), A.data_device.get(), SIZE(Z));
    return A;
}
Matrix& SigmoidActivation::backprop(Matrix& dA, float) {
    dZ.allocateMemoryIfNotAllocated(Z.shape);
    sigmoidBackprop<<<GRID(Z)>>>(Z.data_device.get(), dA.data_device.get(), dZ.data_device.get(), SIZE(Z));
    return dZ;
}
