// A lock around atomicCAS and atomicExch, taken by one thread of each block; bit sets with atomicOr.
__device__ int mutex = 0;
__device__ void
lock(int *m)
{
    while (atomicCAS(m, 0, 1) != 0)
        ;
    __threadfence();
}
__device__ void
unlock(int *m)
{
    __threadfence();
    atomicExch(m, 0);
}
__global__ void
k(volatile int *count, unsigned *seen, int *smallest)
{
    if (threadIdx.x == 0) {
        lock(&mutex);
        *count = *count + 1;
        unlock(&mutex);
        atomicOr(seen, 1u << blockIdx.x);
        atomicMin(smallest, (int)blockIdx.x - 5);
        atomicXor(seen + 1, 3u);
        atomicSub(seen + 2, 1u);
        atomicAnd(seen + 3, ~(1u << blockIdx.x));
    }
}
int
main()
{
    unsigned *m = managed(64);
    m[4] = 100, m[5] = 0xffu;
    k<<<8, 32>>>((int *)m, m + 2, (int *)m + 1);
    cudaDeviceSynchronize();
    return m[0] == 8 && (int)m[1] == -5 && m[2] == 0xff && m[3] == 0 && m[4] == 92 && m[5] == 0 ? 0 : 1;
}
