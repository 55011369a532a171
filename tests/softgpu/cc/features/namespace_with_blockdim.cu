// A template parameter and a constant of a namespace have the name of a built-in variable; other functions mean CUDA's.
#include <cstdio>
namespace tuned
{
template <int blockDim>
__global__ void
fixed(int *out)
{
    out[threadIdx.x] = blockDim;
}
__global__ void
plain(int *out)
{
    out[blockIdx.x * blockDim.x + threadIdx.x] = blockDim.x;
}
__device__ int
size_here()
{
    return blockDim.x;
}
const int gridDim = 7;
__device__ int
constant_here()
{
    return gridDim;
}
__global__ void
both(int *out)
{
    out[0] = gridDim + constant_here() + size_here();
}
} // namespace tuned

int
main()
{
    int *out = managed(64 * sizeof(int));
    tuned::fixed<96><<<1, 4>>>(out);
    tuned::plain<<<2, 8>>>(out + 8);
    tuned::both<<<1, 5>>>(out + 32);
    cudaDeviceSynchronize();
    return out[3] == 96 && out[23] == 8 && out[32] == 19 ? 0 : 1;
}
