// Atomics on shared and global memory of several types, with their results.
__global__ void
histogram(const unsigned char *data, int n, unsigned *bins, unsigned long long *sum, int *largest)
{
    __shared__ unsigned local[256];
    __shared__ int m;
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        local[i] = 0;
    if (threadIdx.x == 0)
        m = -1;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        atomicInc(&local[data[i]], 0xffffffffu);
        atomicAdd(sum, (unsigned long long)data[i]);
        atomicMax(&m, (int)data[i]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (local[i])
            atomicAdd(bins + i, local[i]);
    if (threadIdx.x == 0)
        atomicMax(largest, m);
}

int
main()
{
    unsigned char *data = managed(10000);
    unsigned *bins = managed(1024);
    unsigned long long *sum = managed(8);
    int *largest = managed(4);
    for (int i = 0; i < 10000; ++i)
        data[i] = i % 200;
    histogram<<<4, 64>>>(data, 10000, bins, sum, largest);
    cudaDeviceSynchronize();
    return bins[0] == 50 && bins[199] == 50 && bins[200] == 0 && *sum == 50 * 19900 && *largest == 199 ? 0 : 1;
}
