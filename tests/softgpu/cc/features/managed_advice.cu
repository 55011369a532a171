// Managed memory with advice and prefetches to the device and back, by locations, and attributes of ranges.
__global__ void
square(double *p, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] *= p[i];
}

int
main()
{
    const int n = 1000;
    const size_t bytes = n * sizeof(double);
    double *p;
    cudaMallocManaged(&p, bytes, cudaMemAttachGlobal);
    for (int i = 0; i < n; ++i)
        p[i] = i;
    cudaMemLocation device = {}, host = {};
    device.type = cudaMemLocationTypeDevice;
    device.id = 0;
    host.type = cudaMemLocationTypeHost;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    if (cudaMemAdvise(p, bytes, cudaMemAdviseSetPreferredLocation, device) != cudaSuccess ||
        cudaMemAdvise(p, bytes, cudaMemAdviseSetAccessedBy, host) != cudaSuccess)
        return 1;
    if (cudaMemPrefetchAsync(p, bytes, device, 0, stream) != cudaSuccess)
        return 2;
    square<<<(n + 255) / 256, 256, 0, stream>>>(p, n);
    if (cudaMemPrefetchAsync(p, bytes, host, 0, stream) != cudaSuccess)
        return 3;
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    const bool ok = p[999] == 999.0 * 999;
    cudaFree(p);
    return ok ? 0 : 4;
}
