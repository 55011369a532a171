/* C of CUDA 12 and earlier: members of cudaDeviceProp and functions that CUDA 13 has removed; the values are the
 * attributes'. */
#include <cuda_runtime.h>

static int
attribute(enum cudaDeviceAttr which)
{
    int value = -1;
    return cudaDeviceGetAttribute(&value, which, 0) == cudaSuccess ? value : -1;
}

int
main(void)
{
    struct cudaDeviceProp p;
    size_t limit = 0;
    enum cudaFuncCache config;
    if (cudaGetDeviceProperties(&p, 0) != cudaSuccess || p.clockRate <= 0 || p.memoryClockRate <= 0)
        return 1;
    if (p.clockRate != attribute(cudaDevAttrClockRate) || p.memoryClockRate != attribute(cudaDevAttrMemoryClockRate) ||
        p.deviceOverlap != attribute(cudaDevAttrGpuOverlap) ||
        p.kernelExecTimeoutEnabled != attribute(cudaDevAttrKernelExecTimeout) ||
        p.computeMode != attribute(cudaDevAttrComputeMode))
        return 2;
    if (p.maxTexture1DLinear != attribute(cudaDevAttrMaxTexture1DLinearWidth) ||
        p.singleToDoublePrecisionPerfRatio != attribute(cudaDevAttrSingleToDoublePrecisionPerfRatio))
        return 3;
    if (cudaThreadGetLimit(&limit, cudaLimitStackSize) != cudaSuccess || limit == 0 ||
        cudaThreadGetCacheConfig(&config) != cudaSuccess || cudaThreadSetCacheConfig(config) != cudaSuccess)
        return 4;
    return cudaThreadSynchronize() == cudaSuccess && cudaThreadExit() == cudaSuccess ? 0 : 5;
}
