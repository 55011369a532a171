#include "matrix.hh"
#include <cuda_runtime.h>
#include <stdexcept>
#include <string>

void throwIfDeviceErrorsOccurred(const char* message) {
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) throw std::runtime_error(std::string(message) + ": " + cudaGetErrorString(error));
}
Matrix::Matrix(size_t x_dim, size_t y_dim) : shape(x_dim, y_dim) {}
Matrix::Matrix(Shape shape) : shape(shape) {}
void Matrix::allocateMemory() {
    if (allocated) return;
    float* device = nullptr;
    cudaMalloc(&device, shape.x * shape.y * sizeof(float));
    throwIfDeviceErrorsOccurred("Cannot allocate device memory");
    data_device = std::shared_ptr<float>(device, [](float* p) { cudaFree(p); });
    data_host = std::shared_ptr<float>(new float[shape.x * shape.y](), [](float* p) { delete[] p; });
    allocated = true;
}
void Matrix::allocateMemoryIfNotAllocated(Shape s) {
    if (allocated) return;
    shape = s;
    allocateMemory();
}
void Matrix::copyHostToDevice() {
    cudaMemcpy(data_device.get(), data_host.get(), shape.x * shape.y * sizeof(float), cudaMemcpyHostToDevice);
    throwIfDeviceErrorsOccurred("Cannot copy to the device");
}
void Matrix::copyDeviceToHost() {
    cudaMemcpy(data_host.get(), data_device.get(), shape.x * shape.y * sizeof(float), cudaMemcpyDeviceToHost);
    throwIfDeviceErrorsOccurred("Cannot copy to the host");
}
