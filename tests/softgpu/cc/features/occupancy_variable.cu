// Occupancy of kernels and of templates with bounds, with shared memory that depends on the block; attributes of
// functions set and asked; more than 48 KiB of dynamic shared memory; function symbols.
#include <cstddef>
__global__ void
tile_sum(const float *in, float *out)
{
    extern __shared__ float tile[];
    __shared__ float fixed[16];
    tile[threadIdx.x] = in[threadIdx.x];
    if (threadIdx.x < 16)
        fixed[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0)
        *out = tile[blockDim.x - 1] + fixed[15];
}

template <int N>
__global__ void
__launch_bounds__(N) bounded(int *p)
{
    p[threadIdx.x] = N;
}

int
main()
{
    int grid = 0, block = 0, blocks = 0;
    const auto shared = [](int threads) { return threads * sizeof(float); };
    if (cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, tile_sum, shared) != cudaSuccess || grid < 1 ||
        block < 32 || block > 1024)
        return 1;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, tile_sum, 256, 1024) != cudaSuccess || blocks < 1)
        return 2;
    cudaFuncAttributes attributes;
    if (cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded<256>, 0, 0) != cudaSuccess || block != 256 ||
        cudaFuncGetAttributes(&attributes, bounded<128>) != cudaSuccess || attributes.maxThreadsPerBlock != 128)
        return 7;
    if (cudaFuncGetAttributes(&attributes, tile_sum) != cudaSuccess || attributes.maxThreadsPerBlock < 256 ||
        attributes.sharedSizeBytes < 64)
        return 3;
    if (cudaFuncSetAttribute(tile_sum, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536) != cudaSuccess ||
        cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(tile_sum)) != cudaSuccess ||
        attributes.maxDynamicSharedSizeBytes != 65536)
        return 4;
    cudaFuncSetCacheConfig(tile_sum, cudaFuncCachePreferShared);
    cudaFunction_t function = nullptr;
    if (cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(tile_sum)) != cudaSuccess || function == nullptr)
        return 5;
    float *in = managed(4 * block);
    float *out = managed(4);
    in[block - 1] = 5;
    tile_sum<<<1, block, 65536>>>(in, out);
    int *p = managed(4 * 256);
    bounded<256><<<1, 256>>>(p);
    bounded<128><<<1, 256>>>(p);
    if (cudaGetLastError() == cudaSuccess)
        return 8;
    cudaDeviceSynchronize();
    return *out == 20 && p[255] == 256 ? 0 : 6;
}
