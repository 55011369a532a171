// Occupancy questions for kernels and templates, device properties, limits.
#include <cstddef>
template <int N>
__global__ void
__launch_bounds__(N) bounded(int *p)
{
    p[threadIdx.x] = N;
}
int
main()
{
    int blocks = 0, grid = 0, block = 0, device = -1, value = 0, *p;
    size_t free_bytes = 0, total = 0;
    cudaDeviceProp prop;
    cudaFuncAttributes attributes;
    cudaGetDevice(&device);
    cudaGetDeviceProperties(&prop, device);
    cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device);
    cudaMemGetInfo(&free_bytes, &total);
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bounded<128>, 128, 0) != cudaSuccess || blocks < 1)
        return 1;
    if (cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded<256>, 0, 0) != cudaSuccess || block != 256)
        return 2;
    if (cudaFuncGetAttributes(&attributes, bounded<128>) != cudaSuccess || attributes.maxThreadsPerBlock != 128)
        return 3;
    cudaMallocManaged(&p, 4096);
    bounded<256><<<1, block>>>(p);
    bounded<128><<<1, 256>>>(p);
    if (cudaGetLastError() == cudaSuccess)
        return 4;
    cudaDeviceSynchronize();
    return p[255] == 256 && prop.multiProcessorCount == value && prop.warpSize == 32 && total >= free_bytes ? 0 : 5;
}
