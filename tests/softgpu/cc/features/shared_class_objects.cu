// Objects of classes in shared memory: with member functions, in an array of two dimensions, in a device function.
class Tally
{
    int sum_, largest_;

  public:
    __device__ void clear()
    {
        sum_ = 0, largest_ = -1;
    }
    __device__ void add(int v)
    {
        atomicAdd(&sum_, v);
        atomicMax(&largest_, v);
    }
    __device__ int sum() const
    {
        return sum_;
    }
    __device__ int largest() const
    {
        return largest_;
    }
};
struct Cell {
    float2 at;
    int id;
};
__device__ int
block_sum(int v)
{
    __shared__ Tally tally;
    if (threadIdx.x == 0)
        tally.clear();
    __syncthreads();
    tally.add(v);
    __syncthreads();
    const int result = tally.sum() * 100 + tally.largest();
    __syncthreads();
    return result;
}
__global__ void
k(int *out, float *x)
{
    __shared__ Cell grid[4][8];
    Cell &mine = grid[threadIdx.x / 8][threadIdx.x % 8];
    mine = {make_float2(threadIdx.x, 1), int(threadIdx.x)};
    out[threadIdx.x] = block_sum(threadIdx.x) + block_sum(1);
    x[threadIdx.x] = grid[3 - threadIdx.x / 8][threadIdx.x % 8].at.x;
}

int
main()
{
    int *out = managed(128);
    float *x = managed(128);
    k<<<1, 32>>>(out, x);
    cudaDeviceSynchronize();
    return out[5] == 49631 + 3201 && x[0] == 24 && x[31] == 7 ? 0 : 1;
}
