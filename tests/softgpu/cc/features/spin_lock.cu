// A lock by atomicCAS and atomicExch, held by one thread of each warp at a time.
struct lock {
    int *word;
    __device__ void take() const
    {
        while (atomicCAS(word, 0, 1) != 0)
            __nanosleep(8);
        __threadfence();
    }
    __device__ void give() const
    {
        __threadfence();
        atomicExch(word, 0);
    }
};
__global__ void
count(lock guard, int *counter)
{
    if (threadIdx.x % warpSize == 0) {
        guard.take();
        *counter = *counter + 1;
        guard.give();
    }
}

int
main()
{
    int *words = managed(8);
    count<<<10, 128>>>(lock{words}, words + 1);
    cudaDeviceSynchronize();
    return words[1] != 40 || words[0] != 0;
}
