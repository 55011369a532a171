/*
 * fatal.cu - kernels that would hang or have no right answer on a GPU end the program with a message. fatal.sh runs
 * each.
 */
#include <cub/cub.cuh>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>

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
not_in_mask(int *out)
{
    out[threadIdx.x] = __shfl_sync(0x0000ffff, (int)threadIdx.x, 0);
}

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
    __trap();
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

int
main(int, char **argv)
{
    int *out = nullptr;
    if (cudaMalloc(&out, 4096) != cudaSuccess)
        return 3;
    switch (atoi(argv[1])) {
    case 0:
        half_at_barrier<<<dim3(1, 2), 64>>>(out);
        break;
    case 1:
        not_in_mask<<<1, 32>>>(out);
        break;
    case 2:
        different_collectives<<<1, 32>>>(out);
        break;
    case 3:
        too_much_shared<<<1, 32>>>(out);
        break;
    case 4:
        trap<<<1, 1>>>();
        break;
    case 5:
        hidden_barrier<<<1, 32>>>(out);
        break;
    case 6:
        block_of_another_size<<<1, 256>>>(out);
        break;
    }
    cudaDeviceSynchronize();
    return 0;
}
