// One warp waits in a loop for what another warp of its block writes: by a volatile load, with __nanosleep, by an
// atomic function. Lanes that take a lock one after the other, without a barrier in the kernel.
__managed__ int seen[4], count;
__device__ int lock;

template <int How>
__device__ int
read_flag(int *flag)
{
    return How == 0 ? *(volatile int *)flag : atomicAdd(flag, 0);
}

template <int How>
__global__ void
wait_for_warp()
{
    __shared__ int flag;
    if (threadIdx.x == 0)
        flag = 0;
    __syncthreads();
    if (threadIdx.x == 40)
        atomicExch(&flag, 7);
    if (threadIdx.x < 3) {
        int value;
        do {
            value = read_flag<How % 2>(&flag);
            if (How == 2)
                __nanosleep(20);
        } while (value == 0);
        seen[How] = value;
    }
}

__global__ void
take_lock()
{
    for (bool done = false; !done;) {
        if (threadIdx.x % 2 == 1 || atomicAdd(&count, 0) >= 32) {
            while (atomicCAS(&lock, 0, 1) != 0) {
            }
            ++*(volatile int *)&count;
            __threadfence();
            atomicExch(&lock, 0);
            done = true;
        }
    }
}

__global__ void
wait_without_barrier()
{
    if (threadIdx.x == 0)
        while (atomicAdd(&seen[3], 0) == 0) {
        }
    if (threadIdx.x == 35)
        atomicExch(&seen[3], 7);
}

int
main()
{
    wait_for_warp<0><<<1, 64>>>();
    wait_for_warp<1><<<1, 64>>>();
    wait_for_warp<2><<<1, 64>>>();
    take_lock<<<1, 64>>>();
    wait_without_barrier<<<1, 64>>>();
    if (cudaDeviceSynchronize() != cudaSuccess)
        return 1;
    for (int how = 0; how < 4; ++how) {
        if (seen[how] != 7)
            return 2;
    }
    return count == 64 ? 0 : 3;
}
