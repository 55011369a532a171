// A scan over blocks in three kernels, Kogge-Stone in a block, ping-pong buffers in shared memory.
__device__ int
block_inclusive(int v, int *buffer)
{
    int *in = buffer, *out = buffer + blockDim.x;
    in[threadIdx.x] = v;
    __syncthreads();
    for (int d = 1; d < blockDim.x; d <<= 1) {
        out[threadIdx.x] = in[threadIdx.x] + (threadIdx.x >= d ? in[threadIdx.x - d] : 0);
        int *t = in;
        in = out, out = t;
        __syncthreads();
    }
    return in[threadIdx.x];
}
__global__ void
scan_blocks(int *data, int *sums, int n)
{
    extern __shared__ int scan_buffer[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int total = block_inclusive(i < n ? data[i] : 0, scan_buffer);
    if (i < n)
        data[i] = total;
    if (sums != nullptr && threadIdx.x == blockDim.x - 1)
        sums[blockIdx.x] = total;
}
__global__ void
add_sums(int *data, const int *sums, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x > 0 && i < n)
        data[i] += sums[blockIdx.x - 1];
}
int
main()
{
    const int n = 300, threads = 64, blocks = (n + threads - 1) / threads;
    int *data = managed(n * 4);
    int *sums = managed(blocks * 4);
    for (int i = 0; i < n; ++i)
        data[i] = i;
    scan_blocks<<<blocks, threads, 2 * threads * sizeof(int)>>>(data, sums, n);
    scan_blocks<<<1, threads, 2 * threads * sizeof(int)>>>(sums, NULL, blocks);
    add_sums<<<blocks, threads>>>(data, sums, n);
    cudaDeviceSynchronize();
    return data[299] == 44850 && data[64] == 64 * 65 / 2 ? 0 : 1;
}
