// Pools of stream-ordered memory: the device's, with a threshold, and one of the program's; what they hold.
__global__ void
put(int *p, int v)
{
    p[threadIdx.x] = v + threadIdx.x;
}

int
main()
{
    cudaMemPool_t pool, own;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    unsigned long long threshold = ~0ull, asked = 0;
    if (cudaDeviceGetDefaultMemPool(&pool, 0) != cudaSuccess ||
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold) != cudaSuccess ||
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &asked) != cudaSuccess || asked != threshold)
        return 1;
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = 0;
    if (cudaMemPoolCreate(&own, &properties) != cudaSuccess)
        return 2;
    int *a, *b, host[64];
    if (cudaMallocFromPoolAsync(&a, 256, own, stream) != cudaSuccess ||
        cudaMallocAsync((void **)&b, 256, stream) != cudaSuccess)
        return 3;
    put<<<1, 64, 0, stream>>>(a, 5);
    cudaMemcpyAsync(b, a, 256, cudaMemcpyDeviceToDevice, stream);
    cudaMemcpyAsync(host, b, 256, cudaMemcpyDeviceToHost, stream);
    cudaFreeAsync(a, stream);
    cudaFreeAsync(b, stream);
    cudaStreamSynchronize(stream);
    cudaMemPoolTrimTo(own, 0);
    const bool ok = cudaMemPoolDestroy(own) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess;
    threshold = 0;
    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold);
    return ok && host[0] == 5 && host[63] == 68 ? 0 : 4;
}
