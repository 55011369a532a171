#include "bce_cost.hh"
#include "nn_exception.hh"
#include <cmath>

__global__ void binaryCrossEntropyCost(float *predictions, float *target, int size, float *cost)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < size) {
        float partial_cost = target[index] * logf(predictions[index] + 1e-7f) + (1.0f - target[index]) * logf(1.0f - predictions[index] + 1e-7f);
        atomicAdd(cost, -partial_cost / size);
    }
}

__global__ void dBinaryCrossEntropyCost(float *predictions, float *target, float *dY, int size)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < size)
        dY[index] = -1.0f * (target[index] / (predictions[index] + 1e-7f) - (1 - target[index]) / (1 - predictions[index] + 1e-7f));
}

float BCECost::cost(Matrix predictions, Matrix target)
{
    float *cost, result = 0.0f;
    cudaMalloc(&cost, sizeof(float));
    cudaMemcpy(cost, &result, sizeof(float), cudaMemcpyHostToDevice);
    int n = predictions.shape.x;
    binaryCrossEntropyCost<<<(n + 255) / 256, 256>>>(predictions.data_device.get(), target.data_device.get(), n, cost);
    cudaDeviceSynchronize();
    NNException::throwIfDeviceErrorsOccurred("Cannot compute binary cross entropy cost.");
    cudaMemcpy(&result, cost, sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(cost);
    return result;
}

Matrix BCECost::dCost(Matrix predictions, Matrix target, Matrix dY)
{
    int n = predictions.shape.x;
    dBinaryCrossEntropyCost<<<(n + 255) / 256, 256>>>(predictions.data_device.get(), target.data_device.get(), dY.data_device.get(), n);
    NNException::throwIfDeviceErrorsOccurred("Cannot compute derivative for binary cross entropy.");
    return dY;
}
