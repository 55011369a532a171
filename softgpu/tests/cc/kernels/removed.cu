/*
 * removed.cu - with --allow-removed, what CUDA 13 no longer has means what it meant: calls, warp functions without a
 * mask, also in divergent code, fields of cudaDeviceProp, devices by number in cudaMemAdvise, iterators of CUB,
 * Thrust's allocator of pinned memory. Names that the program itself declares stay its own.
 */
#include "check.h"

#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/system/cuda/experimental/pinned_allocator.h>

struct own {
    int clockRate = 5;
    int cudaThreadExit()
    {
        return clockRate;
    }
};

struct both {
    cudaDeviceProp properties;
    own mine;
};

__device__ int
__any(float x)
{
    return x > 2;
}

__global__ void
exchange(int *out, int lanes)
{
    const int lane = static_cast<int>(threadIdx.x);
    if (lane >= lanes)
        return;
    int sum = lane;
    for (int step = 16; step > 0; step >>= 1)
        sum += __shfl_xor(sum, step);
    out[lane] = 1000 * sum + 100 * __shfl(lane, 3) + 10 * __shfl_up(lane, 1) + __shfl_down(lane, 1, 8);
}

__global__ void
vote(int *out)
{
    const int lane = static_cast<int>(threadIdx.x);
    if (lane % 2 == 0)
        out[lane] = __all(lane != 3) + 10 * static_cast<int>(__ballot(lane < 4)) + 100 * __any(3.0f);
    else
        out[lane] = __all(lane != 3) + 10 * static_cast<int>(__ballot(lane < 4)) + 100 * __any(1.0f);
}

static void
test_warps(int lanes)
{
    buffer<int> out(32);
    exchange<<<1, 32>>>(out.data, lanes);
    CUDA(cudaThreadSynchronize());
    std::vector<int> wanted(32);
    for (int i = 0; i < lanes; ++i)
        wanted[i] = 1000 * (lanes * (lanes - 1) / 2) + 300 + 10 * (i > 0 ? i - 1 : 0) + (i % 8 < 7 ? i + 1 : i);
    expect_equal(out.read(), wanted, "shuffles");

    vote<<<1, 32>>>(out.data);
    CUDA(::cudaThreadSynchronize());
    for (int i = 0; i < 32; ++i)
        wanted[i] = i % 2 == 0 ? 1 + 10 * 5 + 100 : 10 * 10;
    expect_equal(out.read(), wanted, "votes of divergent lanes");
}

static void
test_properties()
{
    int clock = 0, memory_clock = 0;
    CUDA(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0));
    CUDA(cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, 0));
    cudaDeviceProp p, many[2];
    CUDA(cudaGetDeviceProperties(&p, 0));
    many[1] = p;
    both b;
    b.properties = p;
    const cudaDeviceProp *const pointer = &p;
    CHECK(p.clockRate == clock && (int)many[1].memoryClockRate == memory_clock, "%d", p.clockRate);
    CHECK(pointer->clockRate == clock && (*pointer).clockRate == clock && b.properties.clockRate / 2 == clock / 2, "%d",
          pointer->clockRate);
    CHECK(!p.computeMode && -p.deviceOverlap == -1, "%d", p.deviceOverlap);
    own p2;
    CHECK(b.mine.clockRate == 5 && p2.clockRate == 5 && p2.cudaThreadExit() == 5, "%d", p2.clockRate);
}

struct triple {
    __host__ __device__ float operator()(int x) const
    {
        return 3.0f * x;
    }
};

static void
test_iterators()
{
    typedef cub::CountingInputIterator<int> Counting;
    const cub::TransformInputIterator<float, triple, Counting> triples(Counting(5), triple());
    CHECK(triples[2] == 21 && *(triples + 1) == 18, "%g", triples[2]);
    buffer<float> sum(1);
    buffer<char> storage(1024);
    size_t bytes = storage.count;
    CUDA(cub::DeviceReduce::Sum(storage.data, bytes, triples, sum.data, 4));
    expect_equal(sum.read(), {78}, "iterators of CUB");
}

static void
test_pinned()
{
    thrust::host_vector<int, thrust::system::cuda::experimental::pinned_allocator<int>> pinned(100, 7);
    std::vector<int, thrust::cuda::experimental::pinned_allocator<int>> other(3);
    for (const int *const memory : {pinned.data(), other.data()}) {
        cudaPointerAttributes attributes;
        CUDA(cudaPointerGetAttributes(&attributes, memory));
        CHECK(attributes.type == cudaMemoryTypeHost, "type %d", static_cast<int>(attributes.type));
    }
    pinned[99] = 5;
    const thrust::device_vector<int> copy = pinned;
    CHECK(copy.size() == 100 && copy[0] == 7 && copy[99] == 5, "a copy of pinned memory");
}

int
main()
{
    test_warps(32);
    test_warps(16);
    test_properties();
    test_iterators();
    test_pinned();
    void *memory = nullptr;
    CUDA(cudaMallocManaged(&memory, 4096));
    CUDA(cudaMemAdvise(memory, 4096, cudaMemAdviseSetPreferredLocation, 0));
    CUDA(cudaMemPrefetchAsync(memory, 4096, 0));
    CUDA(cudaMemPrefetchAsync(memory, 4096, cudaCpuDeviceId, cudaStreamPerThread));
    CUDA(cudaThreadExit());
    return 0;
}
