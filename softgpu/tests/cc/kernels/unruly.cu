/*
 * unruly.cu - what SOFTGPU_UNRULY draws: sums in float by atomicAdd, 100 launches of each, and how many results they
 * have. Prints a line for each kernel: its name, the number of results, and a number made of all of them. And what must
 * not depend on the order: each thread runs once, and blocks that wait for lower ones come to their end.
 */
#include "check.h"

#include <set>

enum { LAUNCHES = 100, BLOCK = 1000, BLOCKS = 300 };

__device__ int
number_here()
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

/* The same sum by kernels that the stand-in runs in different ways. */
KERNEL(by_line, (const float *x, float *sum), atomicAdd(sum, x[blockIdx.x * blockDim.x + threadIdx.x]))

__global__ void
by_stride(const float *x, float *sum, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(sum, x[i]);
}

KERNEL(by_box, (const float *x, float *sum), atomicAdd(sum, x[number_here()]))

__global__ void
by_fibers(const float *x, float *sum)
{
    __shared__ float last;
    atomicAdd(sum, x[blockIdx.x * blockDim.x + number_here()]);
    if (number_here() == 0)
        last = x[0];
    __syncthreads();
    if (last != x[0])
        *sum = 0;
}

__global__ void
behind_barrier(const float *x, float *sum)
{
    __shared__ float values[BLOCK];
    values[number_here()] = x[number_here()];
    __syncthreads();
    atomicAdd(sum, values[BLOCK - 1 - number_here()]);
}

__global__ void
count_fibers(int *counts)
{
    __syncthreads();
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    atomicAdd(&counts[block * blockDim.x * blockDim.y * blockDim.z + number_here()], 1);
}

__global__ void
count_loop(int *counts)
{
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    atomicAdd(&counts[block * blockDim.x * blockDim.y * blockDim.z + number_here()], 1);
}

/* A decoupled look-back in its simplest form: each block waits for the one before. */
__global__ void
look_back(volatile int *ended)
{
    while (blockIdx.x > 0 && ended[blockIdx.x - 1] == 0) {
    }
    ended[blockIdx.x] = blockIdx.x > 0 ? ended[blockIdx.x - 1] + 1 : 1;
}

template <class Launch>
static void
sums(const char *name, Launch launch)
{
    buffer<float> sum(1);
    std::set<float> results;
    double all = 0;
    for (int i = 0; i < LAUNCHES; ++i) {
        CUDA(cudaMemset(sum.data, 0, sizeof(float)));
        launch(sum.data);
        finish_launch();
        const float got = sum.read()[0];
        results.insert(got);
        all = all * 3 / 4 + got;
    }
    std::printf("%s %zu %.17g\n", name, results.size(), all);
}

static void
each_thread_once(dim3 grid, dim3 block)
{
    const size_t threads = size_t{1} * grid.x * grid.y * grid.z * block.x * block.y * block.z;
    buffer<int> counts(threads);
    count_loop<<<grid, block>>>(counts.data);
    RUN(count_fibers<<<grid, block>>>(counts.data));
    expect_equal(counts.read(), std::vector<int>(threads, 2), "threads that ran");
}

KERNEL(read_numbers, (const double *x, double *out), *out = *x)
KERNEL(read_vector, (const char *x, float4 *out), *out = *reinterpret_cast<const float4 *>(x))

/* Prints the error of a read that is `by` bytes behind where it may be, and of a later call. */
static int
misalign(const char *what, size_t by)
{
    buffer<char> memory(256);
    if (what[0] == 'v')
        read_vector<<<1, 1>>>(memory.data + by, reinterpret_cast<float4 *>(memory.data + 64));
    else
        read_numbers<<<1, 1>>>(reinterpret_cast<double *>(memory.data + by),
                               reinterpret_cast<double *>(memory.data + 64));
    const cudaError_t first = cudaDeviceSynchronize();
    std::printf("%d %d\n", first, cudaDeviceSynchronize());
    return 0;
}

int
main(int argc, char **argv)
{
    if (argc == 3)
        return misalign(argv[1], std::strtoul(argv[2], nullptr, 10));
    const buffer<float> x(random_vector<float>(BLOCKS * BLOCK));
    sums("line", [&](float *sum) { by_line<<<1, BLOCK>>>(x.data, sum); });
    sums("stride", [&](float *sum) { by_stride<<<1, BLOCK>>>(x.data, sum, 3 * BLOCK - 5); });
    sums("box", [&](float *sum) { by_box<<<1, dim3(5, 20, 10)>>>(x.data, sum); });
    sums("fibers", [&](float *sum) { by_fibers<<<1, BLOCK>>>(x.data, sum); });
    sums("barrier", [&](float *sum) { behind_barrier<<<1, BLOCK>>>(x.data, sum); });
    sums("blocks", [&](float *sum) { by_line<<<BLOCKS, 32>>>(x.data, sum); });
    sums("fiber_blocks", [&](float *sum) { by_fibers<<<BLOCKS, 32>>>(x.data, sum); });
    for (unsigned width : {1u, 31u, 32u, 33u, 100u, 1024u})
        each_thread_once(7, width);
    each_thread_once(dim3(3, 2, 2), dim3(7, 5, 3));
    each_thread_once(dim3(2, 3), dim3(16, 16));

    enum { WAITING = 400 };
    buffer<int> ended(WAITING);
    for (int i = 0; i < 3; ++i) {
        CUDA(cudaMemset(ended.data, 0, WAITING * sizeof(int)));
        RUN(look_back<<<WAITING, 1>>>(ended.data));
        CHECK(ended.read()[WAITING - 1] == WAITING, "%d", ended.read()[WAITING - 1]);
    }
    return 0;
}
