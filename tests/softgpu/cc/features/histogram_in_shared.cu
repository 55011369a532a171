// A histogram: bins of a block in dynamic shared memory, added to those of the grid by atomics of a scope.
__global__ void
count(const unsigned char *x, int n, unsigned *bins, int bin_count)
{
    extern __shared__ unsigned mine[];
    for (int i = threadIdx.x; i < bin_count; i += blockDim.x)
        mine[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd_block(&mine[x[i] % bin_count], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < bin_count; i += blockDim.x)
        atomicAdd_system(&bins[i], mine[i]);
}

int
main()
{
    const int n = 5000, bin_count = 40;
    unsigned char *x = managed(n);
    unsigned *bins = managed(4 * bin_count), wanted[bin_count] = {};
    for (int i = 0; i < n; ++i)
        x[i] = static_cast<unsigned char>(i * i % 251), ++wanted[x[i] % bin_count];
    count<<<6, 96, bin_count * sizeof(unsigned)>>>(x, n, bins, bin_count);
    cudaDeviceSynchronize();
    for (int i = 0; i < bin_count; ++i) {
        if (bins[i] != wanted[i])
            return 1;
    }
    return 0;
}
