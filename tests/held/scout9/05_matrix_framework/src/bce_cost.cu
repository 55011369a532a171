#include "bce_cost.hh"
#include "nn_exception.hh"

__global__ void binaryCrossEntropyCost(float *predictions, float *target, int size, float *cost)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < size) {
        float p = fminf(fmaxf(predictions[index], 1e-6f), 1.0f - 1e-6f);
        float partial_cost = target[index] * logf(p) + (1.0f - target[index]) * logf(1.0f - p);
        atomicAdd(cost, -partial_cost / size);
    }
}

__global__ void dBinaryCrossEntropyCost(float *predictions, float *target, float *dY, int size)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < size) {
        float p = fminf(fmaxf(predictions[index], 1e-6f), 1.0f - 1e-6f);
        dY[index] = -1.0f * (target[index] / p - (1 - target[index]) / (1 - p));
    }
}

float BCECost::cost(Matrix predictions, Matrix target)
{
    float *cost;
    cudaMallocManaged(&cost, sizeof(float));
    *cost = 0.0f;
    dim3 block_size(256);
    dim3 num_of_blocks((predictions.shape.x + block_size.x - 1) / block_size.x);
    binaryCrossEntropyCost<<<num_of_blocks, block_size>>>(predictions.data_device.get(), target.data_device.get(),
                                                          predictions.shape.x, cost);
    cudaDeviceSynchronize();
    NNException::throwIfDeviceErrorsOccurred("Cannot compute binary cross entropy cost.");
    float cost_value = *cost;
    cudaFree(cost);
    return cost_value;
}

Matrix BCECost::dCost(Matrix predictions, Matrix target, Matrix dY)
{
    dim3 block_size(256);
    dim3 num_of_blocks((predictions.shape.x + block_size.x - 1) / block_size.x);
    dBinaryCrossEntropyCost<<<num_of_blocks, block_size>>>(predictions.data_device.get(), target.data_device.get(),
                                                           dY.data_device.get(), predictions.shape.x);
    NNException::throwIfDeviceErrorsOccurred("Cannot compute derivative for binary cross entropy.");
    return dY;
}
