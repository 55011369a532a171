// Errors by name and text, kept by cudaPeekAtLastError, cleared by cudaGetLastError; launches that cannot be.
#include <cstring>
__global__ void
k()
{
}

int
main()
{
    k<<<1, 2048>>>();
    const cudaError_t peeked = cudaPeekAtLastError(), taken = cudaGetLastError(), none = cudaGetLastError();
    if (peeked != cudaErrorInvalidConfiguration || taken != peeked || none != cudaSuccess)
        return 1;
    if (std::strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") != 0 ||
        std::strlen(cudaGetErrorString(taken)) == 0)
        return 2;
    void *memory = nullptr;
    if (cudaMalloc(&memory, static_cast<size_t>(1) << 50) != cudaErrorMemoryAllocation || memory != nullptr)
        return 3;
    if (cudaGetLastError() != cudaErrorMemoryAllocation)
        return 4;
    return cudaMemcpy(nullptr, &memory, 8, cudaMemcpyHostToDevice) != cudaErrorInvalidValue ||
           cudaGetLastError() == cudaSuccess;
}
