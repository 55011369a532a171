// C++ of CUDA 12 and earlier, with cuBLAS's header before the runtime's: members and functions that CUDA 13 has
// removed.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

int
main()
{
    int count = 0, clock = 0;
    cudaGetDeviceCount(&count);
    std::vector<cudaDeviceProp> all(count);
    for (int i = 0; i < count; ++i)
        cudaGetDeviceProperties(&all[i], i);
    const auto fastest = std::max_element(all.begin(), all.end(), [](const cudaDeviceProp &a, const cudaDeviceProp &b) {
        return a.clockRate < b.clockRate;
    });
    cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0);
    if (fastest == all.end() || fastest->clockRate != clock || fastest->deviceOverlap != 1)
        return 1;
    double gigabytes_per_s = 2.0 * fastest->memoryClockRate * (fastest->memoryBusWidth / 8) / 1e6;
    return gigabytes_per_s > 100 && cudaThreadSynchronize() == cudaSuccess ? 0 : 2;
}
