/*
 * fatal.cu - kernels that would hang or have no right answer on a GPU, that trap, fail an assertion or run out of
 * stack or shared memory: the launch ends with a message and an error that stays. fatal.sh runs each; exit status 0
 * means that the error is the right one.
 */
#include "check.h"

#include <cub/cub.cuh>
#include <cuda/barrier>
#include <cuda_pipeline.h>

#include <algorithm>
#include <cassert>

#include <unistd.h>

__global__ void
half_at_barrier(int *out)
{
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        for (int i = 0; i < 2; ++i)
            out[threadIdx.x] = __shfl_sync(0xffffffff, i, 0); /* lane 0 of warp 1 comes too; lane 63 does not */
        if (threadIdx.x != 63)
            out[0] = __shfl_sync(0xffffffff, 1, 0);
        else
            __syncthreads();
    }
}

__global__ void
arrivals(int expected, bool all_wait)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    if (threadIdx.x == 0)
        init(&barrier, expected);
    __syncthreads();
    if (all_wait)
        barrier.arrive_and_wait();
    else
        (void)barrier.arrive(2);
}

__global__ void
misaligned(int *out)
{
    __shared__ int s[8];
    __pipeline_memcpy_async(&s[1], out, 16);
    out[threadIdx.x] = s[1];
}

KERNEL(not_in_mask, (int *out), out[threadIdx.x] = __shfl_sync(0x0000ffff, (int)threadIdx.x, 0))

__global__ void
different_collectives(int *out)
{
    if (threadIdx.x % 2)
        out[threadIdx.x] = __shfl_sync(0xffffffff, 1, 0);
    else
        out[threadIdx.x] = __any_sync(0xffffffff, 1);
}

__global__ void
too_much_shared(int *out)
{
    __shared__ int large[20000];
    large[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = large[threadIdx.x];
}

__global__ void
trap()
{
    if (blockIdx.x == 1 && threadIdx.x == 2)
        __trap();
}

__host__ __device__ int
checked(int x)
{
    assert(x != 7 && "in a function");
    return x;
}

__global__ void
asserts(int *out)
{
    assert(gridDim.x > 0);
    const bool is_it = blockIdx.y == 2 && threadIdx.x == 1 && threadIdx.y == 3;
    out[threadIdx.x] = checked(is_it ? 7 : 1);
}

/* Each level keeps its array until the next has returned. */
__device__ int
descend(volatile int *out, int depth)
{
    volatile int room[1024];
    room[depth % 1024] = depth;
    const int below = depth > 0 ? descend(out, depth - 1) : out[0];
    return below + room[depth % 1024];
}

__global__ void
deep(int *out)
{
    __syncthreads();
    out[threadIdx.x] = descend(out, 100000);
}

/* A barrier that no walk through names finds: a library function calls a pointer that comes from memory. */
__device__ void
waits(int)
{
    __syncthreads();
}

struct pointer_in_memory {
    void (*call)(int);
};

__device__ pointer_in_memory memory = {waits};

__global__ void
hidden_barrier(int *out)
{
    out[threadIdx.x] = 0;
    std::for_each(out + threadIdx.x, out + threadIdx.x + 1, memory.call);
}

__global__ void
block_of_another_size(int *out)
{
    typedef cub::BlockReduce<int, 128> Reduce;
    __shared__ typename Reduce::TempStorage temp;
    out[threadIdx.x] = Reduce(temp).Sum(1);
}

/* Dynamic shared memory, with a barrier and without. */
__global__ void
dynamic_with_barrier(int at)
{
    extern __shared__ int room[];
    room[at] = 1;
    __syncthreads();
}

__global__ void
dynamic_write(int at)
{
    extern __shared__ int room[];
    room[at] = 1;
}

__global__ void
dynamic_read(int *out, int at)
{
    extern __shared__ int room[];
    *out = room[at];
}

/* Nothing writes what they wait for: with threads that take turns, and as a loop over threads. */
__global__ void
spins(volatile int *flag)
{
    while (threadIdx.x == 3 && *flag == 0)
        __nanosleep(100);
}

__global__ void
spins_in_loop(int *flag)
{
    int value;
    do
        value = atomicAdd(flag, 0);
    while (value == 0);
}

#define CASE(...)    \
    [](int *out) {   \
        (void)out;   \
        __VA_ARGS__; \
    }
static void (*const cases[])(int *) = {
    CASE(half_at_barrier<<<dim3(1, 2), 64>>>(out)),
    CASE(not_in_mask<<<1, 32>>>(out)),
    CASE(different_collectives<<<1, 32>>>(out)),
    CASE(too_much_shared<<<1, 32>>>(out)),
    CASE(trap<<<2, 32>>>()),
    CASE(hidden_barrier<<<1, 32>>>(out)),
    CASE(block_of_another_size<<<1, 256>>>(out)),
    CASE(asserts<<<dim3(1, 3), dim3(2, 4)>>>(out)),
    CASE(deep<<<1, 32>>>(out)),
    CASE(std::exit(checked(7))),
    CASE(dynamic_with_barrier<<<1, 1, 1024>>>(1024)),
    CASE(dynamic_with_barrier<<<2, 1, 1000>>>(250)),
    CASE(dynamic_write<<<1, 1>>>(0)),
    CASE(dynamic_write<<<2, 1, 4>>>(1)),
    CASE(dynamic_read<<<1, 1, 1024>>>(out, 256)),
    CASE(arrivals<<<1, 40>>>(41, true)),
    CASE(arrivals<<<1, 1>>>(1, false)),
    CASE(misaligned<<<1, 1>>>(out)),
    CASE(cudaMemset(out, 0, 4); spins<<<dim3(1, 3), 40>>>(out)),
    CASE(cudaMemset(out, 0, 4); spins_in_loop<<<1, 32>>>(out)),
    CASE(dynamic_write<<<2, 1, 4>>>(0); trap<<<2, 32>>>(); cudaDeviceSynchronize(); sleep(3)),
};

int
main(int, char **argv)
{
    const int number = atoi(argv[1]);
    int *out = nullptr;
    if (cudaMalloc(&out, 4096) != cudaSuccess)
        return 3;
    cases[number](out);
    /* There is no recovery: the error comes again, from calls that have nothing to do with the launch. */
    const cudaError_t wanted = number == 7                  ? cudaErrorAssert
                               : number >= 8 && number < 15 ? cudaErrorIllegalAddress
                                                            : cudaErrorLaunchFailure;
    const cudaError_t first = cudaDeviceSynchronize(), second = cudaMemset(out, 0, 4);
    if (first != wanted || second != wanted)
        std::fprintf(stderr, "error %d, then %d, not %d\n", first, second, wanted);
    return first == wanted && second == wanted ? 0 : 1;
}
