/* C: the driver's functions beside the runtime's, in the primary context: memory of one, copied by the other; versions,
 * limits and devices. */
#include <cuda.h>
#include <cuda_runtime.h>

int
main(void)
{
    CUdevice device;
    CUcontext context, current;
    CUdeviceptr memory;
    unsigned host[16];
    int driver = 0, runtime = 0, peer = 1;
    size_t limit = 0;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxPushCurrent(context) != CUDA_SUCCESS)
        return 1;
    if (cuMemAlloc(&memory, sizeof(host)) != CUDA_SUCCESS || cuMemsetD32(memory, 7, 16) != CUDA_SUCCESS)
        return 2;
    if (cudaMemcpy(host, (const void *)memory, sizeof(host), cudaMemcpyDeviceToHost) != cudaSuccess)
        return 3;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || cudaRuntimeGetVersion(&runtime) != cudaSuccess ||
        runtime / 1000 != CUDART_VERSION / 1000 || driver < runtime)
        return 6;
    if (cudaDeviceGetLimit(&limit, cudaLimitStackSize) != cudaSuccess || limit == 0 ||
        cudaDeviceCanAccessPeer(&peer, 0, 0) != cudaSuccess || peer != 0)
        return 7;
    cudaSetDevice(0);
    cuCtxGetCurrent(&current);
    const char *name = NULL;
    if (current != context || cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &name) != CUDA_SUCCESS || name == NULL)
        return 4;
    cuMemFree(memory);
    cuCtxPopCurrent(&current);
    return cuDevicePrimaryCtxRelease(device) == CUDA_SUCCESS && host[0] == 7 && host[15] == 7 ? 0 : 5;
}
