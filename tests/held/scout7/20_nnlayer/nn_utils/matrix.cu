#include "matrix.hh"
#include "nn_exception.hh"

void Matrix::allocateCudaMemory()
{
    if (!device_allocated) {
        float *device_memory = nullptr;
        cudaMalloc(&device_memory, shape.x * shape.y * sizeof(float));
        NNException::throwIfDeviceErrorsOccurred("Cannot allocate CUDA memory.");
        data_device = std::shared_ptr<float>(device_memory, [](float *ptr) { cudaFree(ptr); });
        device_allocated = true;
    }
}

void Matrix::allocateHostMemory()
{
    if (!host_allocated) {
        data_host = std::shared_ptr<float>(new float[shape.x * shape.y], [](float *ptr) { delete[] ptr; });
        host_allocated = true;
    }
}

void Matrix::allocateMemory()
{
    allocateCudaMemory();
    allocateHostMemory();
}

void Matrix::allocateMemoryIfNotAllocated(Shape s)
{
    if (!device_allocated && !host_allocated) {
        shape = s;
        allocateMemory();
    }
}

void Matrix::copyHostToDevice()
{
    cudaMemcpy(data_device.get(), data_host.get(), shape.x * shape.y * sizeof(float), cudaMemcpyHostToDevice);
    NNException::throwIfDeviceErrorsOccurred("Cannot copy host data to CUDA device.");
}

void Matrix::copyDeviceToHost()
{
    cudaMemcpy(data_host.get(), data_device.get(), shape.x * shape.y * sizeof(float), cudaMemcpyDeviceToHost);
    NNException::throwIfDeviceErrorsOccurred("Cannot copy device data to host.");
}
