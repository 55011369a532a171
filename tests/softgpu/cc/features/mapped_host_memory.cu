// Host memory that kernels reach: cudaHostAlloc mapped, cudaHostRegister of a vector, flags asked back.
#include <vector>
__global__ void
triple(int *p, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        p[i] *= 3;
}

int
main()
{
    int *pinned, *mapped;
    cudaHostAlloc(&pinned, 400, cudaHostAllocMapped | cudaHostAllocPortable);
    for (int i = 0; i < 100; ++i)
        pinned[i] = i;
    if (cudaHostGetDevicePointer((void **)&mapped, pinned, 0) != cudaSuccess)
        return 1;
    triple<<<1, 32>>>(mapped, 100);
    cudaDeviceSynchronize();
    unsigned flags = 0;
    cudaHostGetFlags(&flags, pinned);
    const bool ok = pinned[99] == 297 && (flags & cudaHostAllocMapped) != 0;
    cudaFreeHost(pinned);

    std::vector<int> values(1000, 2);
    if (cudaHostRegister(values.data(), values.size() * sizeof(int), cudaHostRegisterDefault) != cudaSuccess)
        return 2;
    cudaHostGetDevicePointer(&mapped, values.data(), 0);
    triple<<<1, 32>>>(mapped, 1000);
    cudaDeviceSynchronize();
    cudaHostUnregister(values.data());
    return ok && values[999] == 6 ? 0 : 3;
}
