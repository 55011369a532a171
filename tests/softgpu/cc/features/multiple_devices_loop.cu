// The loop over devices that programs have, peer access questions, the current device restored by a guard.
struct DeviceGuard {
    int before;
    explicit DeviceGuard(int device)
    {
        cudaGetDevice(&before);
        cudaSetDevice(device);
    }
    ~DeviceGuard()
    {
        cudaSetDevice(before);
    }
};
__global__ void
where(int *p, int d)
{
    *p = d + 1;
}
int
main()
{
    int count = 0, sum = 0, now = -1;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count < 1)
        return 1;
    for (int d = 0; d < count; ++d) {
        DeviceGuard guard(d);
        int *p, host = 0, peer = 1;
        cudaMalloc(&p, sizeof(int));
        where<<<1, 1>>>(p, d);
        cudaMemcpy(&host, p, sizeof(int), cudaMemcpyDeviceToHost);
        cudaDeviceCanAccessPeer(&peer, d, d);
        sum += host + peer;
        cudaFree(p);
    }
    cudaGetDevice(&now);
    return now == 0 && sum == count * (count + 1) / 2 ? 0 : 2;
}
