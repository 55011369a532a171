// Errors of launches and calls: their names and texts, what is peeked and what is taken, the next launch works.
#include <cstring>
__global__ void
one(int *p)
{
    *p = 1;
}

int
main()
{
    int *p = managed(4);
    *p = 0;
    one<<<1, 100000>>>(p);
    if (cudaPeekAtLastError() != cudaErrorInvalidConfiguration || cudaGetLastError() != cudaErrorInvalidConfiguration)
        return 1;
    if (cudaGetLastError() != cudaSuccess)
        return 2;
    one<<<dim3(1, 70000), 1>>>(p);
    if (cudaGetLastError() != cudaErrorInvalidConfiguration)
        return 3;
    void *q = nullptr;
    const cudaError_t memory = cudaMalloc(&q, ~size_t(0) / 2);
    if (memory != cudaErrorMemoryAllocation || strcmp(cudaGetErrorName(memory), "cudaErrorMemoryAllocation") != 0)
        return 4;
    cudaGetLastError();
    if (cudaSetDevice(1000) != cudaErrorInvalidDevice || strlen(cudaGetErrorString(cudaErrorInvalidDevice)) == 0)
        return 5;
    cudaGetLastError();
    if (cudaMemcpy(p, nullptr, 4, cudaMemcpyHostToDevice) != cudaErrorInvalidValue)
        return 6;
    cudaGetLastError();
    one<<<1, 1>>>(p);
    return cudaDeviceSynchronize() == cudaSuccess && *p == 1 ? 0 : 7;
}
