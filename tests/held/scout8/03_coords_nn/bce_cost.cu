#include "bce_cost.hh"
#include <cmath>

__global__ void binaryCrossEntropyCost(float *predictions, float *target, int size, float *cost)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < size) {
        float partial_cost = target[index] * logf(predictions[index]) + (1.0f - target[index]) * logf(1.0f - predictions[index]);
        atomicAdd(cost, -partial_cost / size);
    }
}

__global__ void dBinaryCrossEntropyCost(float *predictions, float *target, float *dY, int size)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < size)
        dY[index] = -1.0f * (target[index] / predictions[index] - (1 - target[index]) / (1 - predictions[index]));
}

float BCECost::cost(Matrix predictions, Matrix target)
{
    float *cost;
    cudaMallocManaged(&cost, sizeof(float));
    *cost = 0.0f;
    dim3 block_size(256);
    dim3 num_of_blocks((predictions.shape.x + block_size.x - 1) / block_size.x);
    binaryCrossEntropyCost<<<num_of_blocks, block_size>>>(predictions.data_device.get(), target.data_device.get(), predictions.shape.x, cost);
    cudaDeviceSynchronize();
    float cost_value = *cost;
    cudaFree(cost);
    return cost_value;
}

Matrix BCECost::dCost(Matrix predictions, Matrix target, Matrix dY)
{
    dim3 block_size(256);
    dim3 num_of_blocks((predictions.shape.x + block_size.x - 1) / block_size.x);
    dBinaryCrossEntropyCost<<<num_of_blocks, block_size>>>(predictions.data_device.get(), target.data_device.get(), dY.data_device.get(), predictions.shape.x);
    return dY;
}
