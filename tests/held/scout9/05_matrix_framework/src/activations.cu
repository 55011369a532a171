#include "activations.hh"
#include "nn_exception.hh"

__device__ float sigmoid(float x) { return 1.0f / (1 + expf(-x)); }

__global__ void reluActivationForward(float *Z, float *A, int n)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < n)
        A[index] = fmaxf(Z[index], 0);
}

__global__ void reluActivationBackprop(float *Z, float *dA, float *dZ, int n)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < n)
        dZ[index] = Z[index] > 0 ? dA[index] : 0;
}

__global__ void sigmoidActivationForward(float *Z, float *A, int n)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < n)
        A[index] = sigmoid(Z[index]);
}

__global__ void sigmoidActivationBackprop(float *Z, float *dA, float *dZ, int n)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < n)
        dZ[index] = dA[index] * sigmoid(Z[index]) * (1 - sigmoid(Z[index]));
}

static dim3 blocks(const Matrix &m) { return dim3((m.shape.x * m.shape.y + 255) / 256); }

Matrix &ReLUActivation::forward(Matrix &Z)
{
    this->Z = Z;
    A.allocateMemoryIfNotAllocated(Z.shape);
    reluActivationForward<<<blocks(Z), 256>>>(Z.data_device.get(), A.data_device.get(), Z.shape.x * Z.shape.y);
    NNException::throwIfDeviceErrorsOccurred("Cannot perform ReLU forward propagation.");
    return A;
}

Matrix &ReLUActivation::backprop(Matrix &dA, float)
{
    dZ.allocateMemoryIfNotAllocated(Z.shape);
    reluActivationBackprop<<<blocks(Z), 256>>>(Z.data_device.get(), dA.data_device.get(), dZ.data_device.get(),
                                               Z.shape.x * Z.shape.y);
    NNException::throwIfDeviceErrorsOccurred("Cannot perform ReLU back propagation");
    return dZ;
}

Matrix &SigmoidActivation::forward(Matrix &Z)
{
    this->Z = Z;
    A.allocateMemoryIfNotAllocated(Z.shape);
    sigmoidActivationForward<<<blocks(Z), 256>>>(Z.data_device.get(), A.data_device.get(), Z.shape.x * Z.shape.y);
    NNException::throwIfDeviceErrorsOccurred("Cannot perform sigmoid forward propagation.");
    return A;
}

Matrix &SigmoidActivation::backprop(Matrix &dA, float)
{
    dZ.allocateMemoryIfNotAllocated(Z.shape);
    sigmoidActivationBackprop<<<blocks(Z), 256>>>(Z.data_device.get(), dA.data_device.get(), dZ.data_device.get(),
                                                  Z.shape.x * Z.shape.y);
    NNException::throwIfDeviceErrorsOccurred("Cannot perform sigmoid back propagation");
    return dZ;
}
