// Ballots, population counts, ranks among active lanes, shuffles of structs' members, __activemask.
__global__ void
compact(const int *in, int *out, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool keep = i < n && in[i] % 3 == 0;
    unsigned mask = __ballot_sync(0xffffffff, keep);
    int lane = threadIdx.x & 31, base = 0;
    if (lane == 0)
        base = atomicAdd(count, __popc(mask));
    base = __shfl_sync(0xffffffff, base, 0);
    if (keep)
        out[base + __popc(mask & ((1u << lane) - 1))] = in[i];
    if (__any_sync(~0u, keep) && __all_sync(~0u, !keep))
        atomicExch(count, -1000);
}

int
main()
{
    int *in, *out, *count, sum = 0;
    cudaMallocManaged(&in, 4000);
    cudaMallocManaged(&out, 4000);
    cudaMallocManaged(&count, 4);
    for (int i = 0; i < 1000; ++i)
        in[i] = i;
    compact<<<8, 128>>>(in, out, count, 1000);
    cudaDeviceSynchronize();
    for (int i = 0; i < *count; ++i)
        sum += out[i];
    return *count == 334 && sum == 3 * 333 * 334 / 2 ? 0 : 1;
}
