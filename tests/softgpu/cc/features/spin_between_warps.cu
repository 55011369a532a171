// Threads that spin on shared memory until another warp of their block, or another lane of their warp, writes it: ends,
// as on a GPU.
enum kind { PLAIN, ATOMIC, ASLEEP };
__global__ void
waits_for_flag(int *o, kind how)
{
    __shared__ volatile int flag;
    if (threadIdx.x == 0)
        flag = 0;
    __syncthreads();
    if (threadIdx.x == 33)
        flag = 1;
    if (how == PLAIN)
        while (threadIdx.x == 0 && flag == 0) {
        }
    else if (how == ATOMIC)
        while (threadIdx.x == 0 && atomicAdd((int *)&flag, 0) == 0) {
        }
    else
        while (threadIdx.x == 0 && flag == 0)
            __nanosleep(20);
    if (threadIdx.x == 0)
        *o = flag;
}
/* Each thread waits for the one behind it. */
__global__ void
in_turns(int *o)
{
    __shared__ volatile int turn;
    if (threadIdx.x == 0)
        turn = blockDim.x - 1;
    __syncthreads();
    while (turn != threadIdx.x)
        __nanosleep(10);
    *o = *o * 3 + threadIdx.x;
    turn = turn - 1;
}

int
main()
{
    int *o = managed(16);
    for (int how = PLAIN; how <= ASLEEP; ++how) {
        *o = 0;
        waits_for_flag<<<1, 64>>>(o, (kind)how);
        if (cudaDeviceSynchronize() != cudaSuccess || *o != 1)
            return 1 + how;
    }
    *o = 0;
    in_turns<<<1, 96>>>(o);
    cudaDeviceSynchronize();
    unsigned expected = 0;
    for (int i = 95; i >= 0; --i)
        expected = expected * 3 + i;
    return (unsigned)*o != expected ? 10 : 0;
}
