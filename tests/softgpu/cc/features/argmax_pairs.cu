// The index of the largest number of each row: pairs through shuffles and shared memory, ties to the first, packed
// atomics.
struct Best {
    float value;
    int index;
};
__device__ __forceinline__ Best
better(const Best &a, const Best &b)
{
    return a.value > b.value || (a.value == b.value && a.index < b.index) ? a : b;
}
__device__ Best
warp_best(Best b)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
        const Best other = {__shfl_xor_sync(~0u, b.value, offset), __shfl_xor_sync(~0u, b.index, offset)};
        b = better(b, other);
    }
    return b;
}
template <int WARPS>
__global__ void
argmax(const float *x, int columns, int *out, unsigned long long *packed)
{
    __shared__ Best best[WARPS];
    const float *row = x + blockIdx.x * columns;
    Best mine = {-1e30f, 1 << 30};
    for (int c = threadIdx.x; c < columns; c += blockDim.x)
        mine = better(mine, Best{row[c], c});
    mine = warp_best(mine);
    if (threadIdx.x % warpSize == 0)
        best[threadIdx.x / warpSize] = mine;
    __syncthreads();
    if (threadIdx.x < 32) {
        mine = warp_best(threadIdx.x < WARPS ? best[threadIdx.x] : Best{-1e30f, 1 << 30});
        if (threadIdx.x == 0) {
            out[blockIdx.x] = mine.index;
            atomicMax(packed, (unsigned long long)__float_as_uint(mine.value) << 32 | blockIdx.x);
        }
    }
}

int
main()
{
    const int rows = 3, columns = 300;
    float *x = managed(rows * columns * sizeof(float));
    int *out = managed(rows * sizeof(int));
    unsigned long long *packed = managed(8);
    *packed = 0;
    for (int i = 0; i < rows * columns; ++i)
        x[i] = i % 17;
    x[150] = x[151] = 99, x[columns + 299] = 100, x[2 * columns] = 50;
    argmax<4><<<rows, 128>>>(x, columns, out, packed);
    cudaDeviceSynchronize();
    return out[0] == 150 && out[1] == 299 && out[2] == 0 && (*packed & 0xffffffff) == 1 ? 0 : 1;
}
