// CUB in a block: a reduction, a scan, a type alias with dependent names, temporary storage in a union.
#include <cub/cub.cuh>
template <typename T, int BLOCK>
__global__ void
k(const T *in, T *out)
{
    typedef cub::BlockReduce<T, BLOCK> BlockReduceT;
    using BlockScanT = cub::BlockScan<T, BLOCK>;
    __shared__ union {
        typename BlockReduceT::TempStorage reduce;
        typename BlockScanT::TempStorage scan;
    } temp;
    T v = in[threadIdx.x], before;
    const T sum = BlockReduceT(temp.reduce).Sum(v);
    __syncthreads();
    BlockScanT(temp.scan).ExclusiveSum(v, before);
    out[threadIdx.x] = before;
    if (threadIdx.x == 0)
        out[BLOCK] = sum;
}
int
main()
{
    int *m = managed(1024);
    for (int i = 0; i < 64; ++i)
        m[i] = i;
    k<int, 64><<<1, 64>>>(m, m + 64);
    cudaDeviceSynchronize();
    return m[128] == 2016 && m[127] == 63 * 62 / 2 ? 0 : 1;
}
