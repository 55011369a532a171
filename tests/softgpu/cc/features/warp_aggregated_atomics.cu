// Lanes that add to one counter elect a leader, which adds for all of them and hands out places.
__device__ int
place(int *counter)
{
    const unsigned active = __activemask();
    const int leader = __ffs(active) - 1, rank = __popc(active & ((1u << (threadIdx.x & 31)) - 1));
    int base = 0;
    if (static_cast<int>(threadIdx.x & 31) == leader)
        base = atomicAdd(counter, __popc(active));
    return __shfl_sync(active, base, leader) + rank;
}
__global__ void
filter(const int *x, int *out, int *count, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 3)
        out[place(count)] = x[i];
}

int
main()
{
    const int n = 500;
    int *x = managed(4 * n), *out = managed(4 * n), *count = managed(4), wanted = 0, sum = 0;
    for (int i = 0; i < n; ++i)
        x[i] = i * 7 % 11, wanted += x[i] > 3 ? x[i] + 1000 : 0;
    filter<<<4, 128>>>(x, out, count, n);
    cudaDeviceSynchronize();
    for (int i = 0; i < *count; ++i)
        sum += out[i] + 1000;
    return sum != wanted;
}
