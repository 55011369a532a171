// Code for both sides by NV_IF_TARGET and NV_DISPATCH_TARGET, and by __CUDACC__.
#include <nv/target>
__host__ __device__ int
twice(int x)
{
    NV_IF_ELSE_TARGET(NV_IS_DEVICE, (return x + x;), (return 2 * x;))
}
__host__ __device__ int
either(int x)
{
    NV_DISPATCH_TARGET(NV_PROVIDES_SM_90, (return x * 3;), NV_IS_DEVICE, (return x + x + x;), NV_IS_HOST,
                       (return 3 * x;))
}
#ifdef __CUDACC__
#define BOTH __host__ __device__
#endif
BOTH int
thrice(int x)
{
    return either(x);
}
__global__ void
k(int *x)
{
    *x = twice(*x) + thrice(*x);
}

int
main()
{
    int *x = managed(4);
    *x = 5;
    k<<<1, 1>>>(x);
    cudaDeviceSynchronize();
    return *x != 25 || twice(4) != 8 || thrice(2) != 6;
}
