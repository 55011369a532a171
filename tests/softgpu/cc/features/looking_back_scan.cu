// A scan in one launch: each block waits for the sum of the one before it, by a flag in memory.
__global__ void
scan(const int *x, int *out, volatile int *flags, volatile int *sums)
{
    __shared__ int before;
    int total = 0;
    for (unsigned i = 0; i <= threadIdx.x; ++i)
        total += x[blockIdx.x * blockDim.x + i];
    if (threadIdx.x == blockDim.x - 1) {
        int base = 0;
        if (blockIdx.x > 0) {
            while (flags[blockIdx.x - 1] == 0)
                __nanosleep(20);
            __threadfence();
            base = sums[blockIdx.x - 1];
        }
        sums[blockIdx.x] = base + total;
        __threadfence();
        flags[blockIdx.x] = 1;
        before = base;
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = before + total;
}

int
main()
{
    int *x = managed(4 * 96), *out = managed(4 * 96), *flags = managed(4 * 3), *sums = managed(4 * 3), total = 0;
    for (int i = 0; i < 96; ++i)
        x[i] = i % 7 - 2;
    scan<<<3, 32>>>(x, out, flags, sums);
    cudaDeviceSynchronize();
    for (int i = 0; i < 96; ++i) {
        total += x[i];
        if (out[i] != total)
            return 1;
    }
    return 0;
}
