// printf with several types, clock, clock64, globaltimer's relatives, __nanosleep, assert that holds.
#include <cassert>
#include <cstdio>
__global__ void
k(long long *ticks)
{
    clock_t a = clock();
    long long start = clock64();
    if (threadIdx.x == 0 && blockIdx.x == 0)
        printf("block %d of %u: %f %s %c %llu %p\n", blockIdx.x, gridDim.x, 1.5, "text", 'c', 1ull << 40,
               (void *)ticks);
    __nanosleep(1);
    assert(ticks != nullptr && "the host gives memory");
    ticks[threadIdx.x] = clock64() - start + (clock() - a >= 0 ? 0 : -1000000000);
}

int
main()
{
    long long *ticks = managed(32);
    k<<<1, 4>>>(ticks);
    return cudaDeviceSynchronize() == cudaSuccess && ticks[3] >= 0 ? 0 : 1;
}
