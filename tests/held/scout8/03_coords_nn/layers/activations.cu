#include "activations.hh"

__device__ float sigmoid(float x) { return 1.0f / (1 + expf(-x)); }

__global__ void reluForward(float *Z, float *A, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) A[i] = fmaxf(Z[i], 0);
}

__global__ void reluBackprop(float *Z, float *dA, float *dZ, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dZ[i] = Z[i] > 0 ? dA[i] : 0;
}

__global__ void sigmoidForward(float *Z, float *A, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) A[i] = sigmoid(Z[i]);
}

__global__ void sigmoidBackprop(float *Z, float *dA, float *dZ, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dZ[i] = dA[i] * sigmoid(Z[i]) * (1 - sigmoid(Z[i]));
}

Matrix &ReLUActivation::forward(Matrix &Z)
{
    this->Z = Z;
    A.allocateMemoryIfNotAllocated(Z.shape);
    int n = Z.shape.x * Z.shape.y;
    reluForward<<<(n + 255) / 256, 256>>>(Z.data_device.get(), A.data_device.get(), n);
    return A;
}

Matrix &ReLUActivation::backprop(Matrix &dA, float)
{
    dZ.allocateMemoryIfNotAllocated(Z.shape);
    int n = Z.shape.x * Z.shape.y;
    reluBackprop<<<(n + 255) / 256, 256>>>(Z.data_device.get(), dA.data_device.get(), dZ.data_device.get(), n);
    return dZ;
}

Matrix &SigmoidActivation::forward(Matrix &Z)
{
    this->Z = Z;
    A.allocateMemoryIfNotAllocated(Z.shape);
    int n = Z.shape.x * Z.shape.y;
    sigmoidForward<<<(n + 255) / 256, 256>>>(Z.data_device.get(), A.data_device.get(), n);
    return A;
}

Matrix &SigmoidActivation::backprop(Matrix &dA, float)
{
    dZ.allocateMemoryIfNotAllocated(Z.shape);
    int n = Z.shape.x * Z.shape.y;
    sigmoidBackprop<<<(n + 255) / 256, 256>>>(Z.data_device.get(), dA.data_device.get(), dZ.data_device.get(), n);
    return dZ;
}
