/* C: allocation, copies with and without a pitch, memset, pointers' attributes, pinned memory. */
#include <cuda_runtime.h>
#include <string.h>

int
main(void)
{
    float host[4][8] = {{0}}, back[4][8], *device = NULL, *pinned = NULL;
    void *rows = NULL;
    size_t pitch = 0, free_bytes = 0, total = 0;
    for (int i = 0; i < 32; ++i)
        host[i / 8][i % 8] = (float)i;
    if (cudaMalloc((void **)&device, sizeof(host)) != cudaSuccess ||
        cudaMallocHost((void **)&pinned, sizeof(host)) != cudaSuccess ||
        cudaMallocPitch(&rows, &pitch, sizeof(host[0]), 4) != cudaSuccess)
        return 1;
    cudaMemcpy(device, host, sizeof(host), cudaMemcpyHostToDevice);
    cudaMemcpy2D(rows, pitch, device, sizeof(host[0]), sizeof(host[0]), 4, cudaMemcpyDeviceToDevice);
    cudaMemset2D((char *)rows + pitch, pitch, 0, sizeof(host[0]), 1);
    cudaMemcpy2D(pinned, sizeof(host[0]), rows, pitch, sizeof(host[0]), 4, cudaMemcpyDeviceToHost);
    memcpy(back, pinned, sizeof(back));
    struct cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, device + 3) != cudaSuccess || attributes.type != cudaMemoryTypeDevice)
        return 2;
    if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess || free_bytes >= total)
        return 3;
    if (cudaFree(device) != cudaSuccess || cudaFree(rows) != cudaSuccess || cudaFreeHost(pinned) != cudaSuccess)
        return 4;
    return back[0][7] == 7 && back[1][0] == 0 && back[1][7] == 0 && back[3][7] == 31 ? 0 : 5;
}
