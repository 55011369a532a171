#include "layers.hh"

__global__ void binaryCrossEntropyCost(float* predictions, float* target, int size, float* cost) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        float p = fminf(fmaxf(predictions[i], 1e-6f), 1 - 1e-6f);
        float partial = target[i] * logf(p) + (1.0f - target[i]) * logf(1.0f - p);
        atomicAdd(cost, -partial / size);
    }
}
__global__ void dBinaryCrossEntropyCost(float* predictions, float* target, float* dY, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        float p = fminf(fmaxf(predictions[i], 1e-6f), 1 - 1e-6f);
        dY[i] = -1.0f * (target[i] / p - (1 - target[i]) / (1 - p));
    }
}
float BCECost::cost(Matrix predictions, Matrix target) {
    float* cost;
    cudaMallocManaged(&cost, sizeof(float));
    *cost = 0.0f;
    binaryCrossEntropyCost<<<(predictions.shape.y + 255) / 256, 256>>>(predictions.data_device.get(), target.data_device.get(),
                                                                      predictions.shape.y, cost);
    cudaDeviceSynchronize();
    throwIfDeviceErrorsOccurred("Cannot compute binary cross entropy cost");
    float value = *cost;
    cudaFree(cost);
    return value;
}
Matrix BCECost::dCost(Matrix predictions, Matrix target, Matrix dY) {
    dBinaryCrossEntropyCost<<<(predictions.shape.y + 255) / 256, 256>>>(predictions.data_device.get(), target.data_device.get(),
                                                                       dY.data_device.get(), predictions.shape.y);
    throwIfDeviceErrorsOccurred("Cannot compute derivative for binary cross entropy");
    return dY;
}
