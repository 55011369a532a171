/* C: devices, properties and attributes that agree, versions, names of errors, limits. */
#include <cuda_runtime.h>
#include <string.h>

int
main(void)
{
    int count = 0, driver = 0, runtime = 0, value = 0, device = -1;
    struct cudaDeviceProp properties;
    size_t limit = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count < 1 || cudaGetDevice(&device) != cudaSuccess || device != 0)
        return 1;
    memset(&properties, 0, sizeof(properties));
    if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess || properties.name[0] == '\0' ||
        properties.warpSize != 32)
        return 2;
    cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0);
    if (value != properties.multiProcessorCount)
        return 3;
    cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0);
    if (value != properties.major)
        return 4;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (runtime / 1000 != CUDART_VERSION / 1000 || driver < runtime)
        return 5;
    if (strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") != 0 ||
        cudaSetDevice(count) != cudaErrorInvalidDevice || cudaGetLastError() != cudaErrorInvalidDevice)
        return 6;
    return cudaDeviceGetLimit(&limit, cudaLimitStackSize) == cudaSuccess && limit > 0 ? 0 : 7;
}
