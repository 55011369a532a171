// Launches: of grids that synchronise and of clusters, early ones, their shape by occupancy and attributes, streams and
// events, marks of profilers, printf and clocks.
#include <cassert>
#include <cooperative_groups.h>
#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>

namespace cg = cooperative_groups;

// A prefix sum of the grid: each block's sum, then each block adds those before it, twice. With shared memory that each
// block keeps.
__global__ void
scan(int *x, int *sums, int rounds)
{
    extern __shared__ int part[];
    __shared__ int mine;
    const cg::grid_group grid = cg::this_grid();
    const unsigned at = static_cast<unsigned>(grid.thread_rank());
    for (int round = 0; round < rounds; ++round) {
        part[threadIdx.x] = x[at];
        __syncthreads();
        for (unsigned step = 1; step < blockDim.x; step *= 2) {
            const int add = threadIdx.x >= step ? part[threadIdx.x - step] : 0;
            __syncthreads();
            part[threadIdx.x] += add;
            __syncthreads();
        }
        if (threadIdx.x == 0)
            mine = sums[blockIdx.x] = part[blockDim.x - 1];
        grid.sync();
        int before = 0;
        for (unsigned b = 0; b < blockIdx.x; ++b)
            before += sums[b];
        x[at] = before + part[threadIdx.x];
        grid.sync();
        if (threadIdx.x == 0 && mine != sums[blockIdx.x])
            x[at] = -1;
    }
}

// As programs did it before there was grid.sync(). Some threads leave early.
__global__ void
spin(unsigned *count, int *seen)
{
    if (threadIdx.x > 0 && threadIdx.x < 32)
        return;
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(count, 1u);
        while (*static_cast<volatile unsigned *>(count) < gridDim.x)
            ;
    }
    __syncthreads();
    if (threadIdx.x == 32)
        seen[blockIdx.x] = static_cast<int>(*count);
}

FEATURE(grids_synchronise)
{
    enum { BLOCKS = 7, THREADS = 96, ALL = BLOCKS * THREADS };
    int *x = managed(4 * ALL), *sums = managed(4 * BLOCKS), *seen = managed(4 * BLOCKS), rounds = 2;
    unsigned *count = managed(4);
    void *arguments[] = {&x, &sums, &rounds}, *spins[] = {&count, &seen};
    for (int i = 0; i < ALL; ++i)
        x[i] = 1;
    EXPECT(cudaLaunchCooperativeKernel(scan, BLOCKS, THREADS, arguments, 4 * THREADS) == cudaSuccess);
    EXPECT(cudaLaunchCooperativeKernel(spin, BLOCKS, 64, spins) == cudaSuccess && done());
    for (int i = 0; i < ALL; ++i)
        EXPECT(x[i] == (i + 1) * (i + 2) / 2);
    for (int i = 0; i < BLOCKS; ++i)
        EXPECT(seen[i] == BLOCKS);
    EXPECT(cudaLaunchCooperativeKernel(scan, 1 << 20, THREADS, arguments) == cudaErrorCooperativeLaunchTooLarge);
    EXPECT(cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge);
}

FEATURE(a_graphs_node_stays_cooperative_with_other_parameters)
{
    int *first = managed(4 * 64), *second = managed(4 * 64), *sums = managed(4 * 2), rounds = 1;
    void *arguments[] = {&first, &sums, &rounds}, *others[] = {&second, &sums, &rounds};
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t node;
    size_t count = 1;
    for (int i = 0; i < 64; ++i)
        first[i] = second[i] = 1;
    EXPECT(cudaStreamCreate(&stream) == cudaSuccess);
    EXPECT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    EXPECT(cudaLaunchCooperativeKernel(scan, 2, 32, arguments, 4 * 32, stream) == cudaSuccess);
    EXPECT(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    EXPECT(cudaGraphGetNodes(graph, &node, &count) == cudaSuccess);
    EXPECT(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess && cudaGraphLaunch(exec, stream) == cudaSuccess);
    cudaKernelNodeParams parameters = {};
    parameters.func = reinterpret_cast<void *>(scan);
    parameters.gridDim = 2;
    parameters.blockDim = 32;
    parameters.sharedMemBytes = 4 * 32;
    parameters.kernelParams = others;
    EXPECT(cudaGraphExecKernelNodeSetParams(exec, node, &parameters) == cudaSuccess);
    EXPECT(cudaGraphLaunch(exec, stream) == cudaSuccess && cudaStreamSynchronize(stream) == cudaSuccess);
    EXPECT(first[63] == 64 && second[63] == 64);
}

__global__ void
neighbours(int *x)
{
    __shared__ int mine[32];
    const cg::cluster_group cluster = cg::this_cluster();
    mine[threadIdx.x] = static_cast<int>(blockIdx.y * 1000 + blockIdx.x * 100 + threadIdx.x);
    cluster.sync();
    const int *other = cluster.map_shared_rank(mine, (cluster.block_rank() + 1) % cluster.num_blocks());
    x[(blockIdx.y * gridDim.x + blockIdx.x) * 32 + threadIdx.x] = other[31 - threadIdx.x];
    cluster.sync();
}

static cudaLaunchConfig_t
config_of(dim3 grid, dim3 block, cudaLaunchAttribute *attribute)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.attrs = attribute;
    config.numAttrs = 1;
    return config;
}

FEATURE(clusters_read_each_others_shared_memory)
{
    int *x = managed(4 * 4 * 2 * 32);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = attribute.val.clusterDim.y = 2;
    attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = config_of(dim3(4, 2), 32, &attribute);
    EXPECT(cudaLaunchKernelEx(&config, neighbours, x) == cudaSuccess && done());
    for (int i = 0; i < 4 * 2 * 32; ++i) {
        const int block = i / 32, column = block % 4, rank = (block / 4 * 2 + column % 2 + 1) % 4;
        EXPECT(x[i] == rank / 2 * 1000 + (column / 2 * 2 + rank % 2) * 100 + 31 - i % 32);
    }
    neighbours<<<dim3(4, 2), 32>>>(x);
    EXPECT(done() && x[5 * 32] == 1131);
    config.gridDim = dim3(3, 2);
    EXPECT(cudaLaunchKernelEx(&config, neighbours, x) != cudaSuccess && cudaGetLastError() != cudaSuccess);
}

__managed__ float numbers[64], doubled[64];

__global__ void
first()
{
    numbers[threadIdx.x] = threadIdx.x;
    cudaTriggerProgrammaticLaunchCompletion();
}
__global__ void
second(float by)
{
    cudaGridDependencySynchronize();
    doubled[threadIdx.x] = by * numbers[threadIdx.x];
}

// Its argument is converted to the parameter's type.
FEATURE(a_kernel_begins_early)
{
    first<<<1, 64>>>();
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    const cudaLaunchConfig_t config = config_of(1, 64, &early);
    EXPECT(cudaLaunchKernelEx(&config, second, 2) == cudaSuccess && done());
    for (int i = 0; i < 64; ++i)
        EXPECT(doubled[i] == 2.0f * i);
}

__global__ void
tile_sum(const float *in, float *out)
{
    extern __shared__ float tile[];
    __shared__ float fixed[16];
    tile[threadIdx.x] = in[threadIdx.x];
    if (threadIdx.x < 16)
        fixed[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0)
        *out = tile[blockDim.x - 1] + fixed[15];
}
template <int N>
__global__ void
__launch_bounds__(N) bounded(int *p)
{
    p[threadIdx.x] = N;
}

FEATURE(occupancy_and_attributes_of_kernels)
{
    int grid = 0, block = 0, blocks = 0;
    cudaFuncAttributes attributes;
    EXPECT(cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded<256>, 0, 0) == cudaSuccess && block == 256);
    EXPECT(cudaFuncGetAttributes(&attributes, bounded<128>) == cudaSuccess && attributes.maxThreadsPerBlock == 128);
    EXPECT(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, tile_sum, 256, 1024) == cudaSuccess && blocks >= 1);
    const auto shared = [](int threads) { return threads * sizeof(float); };
    EXPECT(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, tile_sum, shared) == cudaSuccess);
    EXPECT(grid >= 1 && block >= 32 && block <= 1024);
    EXPECT(cudaFuncGetAttributes(&attributes, tile_sum) == cudaSuccess && attributes.maxThreadsPerBlock >= 256 &&
           attributes.sharedSizeBytes >= 64);
    EXPECT(cudaFuncSetAttribute(tile_sum, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536) == cudaSuccess);
    EXPECT(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(tile_sum)) == cudaSuccess &&
           attributes.maxDynamicSharedSizeBytes == 65536);
    EXPECT(cudaFuncSetCacheConfig(tile_sum, cudaFuncCachePreferShared) == cudaSuccess);
    cudaFunction_t function = nullptr;
    EXPECT(cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(tile_sum)) == cudaSuccess && function);
    float *in = managed(4 * block), *out = managed(4);
    int *p = managed(4 * 256);
    in[block - 1] = 5;
    tile_sum<<<1, block, 65536>>>(in, out);
    bounded<256><<<1, 256>>>(p);
    bounded<128><<<1, 256>>>(p);
    EXPECT(cudaGetLastError() != cudaSuccess && done() && *out == 20 && p[255] == 256);
}

__global__ void
multiply_add(long *p, long factor, long summand)
{
    *p = *p * factor + summand;
}

FEATURE(streams_wait_in_a_ring)
{
    int least = -1, greatest = 1, priority = 7;
    unsigned flags = 0;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    EXPECT(least >= greatest);
    long *p = managed(sizeof(*p)), expected = 1;
    *p = 1;
    cudaStream_t streams[3];
    cudaEvent_t ends[3];
    for (int i = 0; i < 3; ++i) {
        cudaStreamCreateWithPriority(&streams[i], cudaStreamNonBlocking, i == 0 ? greatest : least);
        cudaEventCreateWithFlags(&ends[i], cudaEventDisableTiming | cudaEventBlockingSync);
    }
    cudaStreamGetPriority(streams[0], &priority);
    cudaStreamGetFlags(streams[0], &flags);
    EXPECT(priority == greatest && flags == cudaStreamNonBlocking);
    for (int round = 0; round < 12; ++round) {
        const int here = round % 3, before = (round + 2) % 3;
        if (round > 0)
            cudaStreamWaitEvent(streams[here], ends[before], cudaEventWaitDefault);
        multiply_add<<<1, 1, 0, streams[here]>>>(p, 3, round);
        cudaEventRecord(ends[here], streams[here]);
        expected = expected * 3 + round;
    }
    cudaEventSynchronize(ends[2]);
    EXPECT(cudaEventQuery(ends[2]) == cudaSuccess && cudaStreamQuery(streams[2]) == cudaSuccess);
    for (cudaStream_t stream : {cudaStreamPerThread, cudaStreamLegacy}) {
        multiply_add<<<1, 1, 0, stream>>>(p, 1, 1);
        cudaStreamSynchronize(stream);
    }
    for (int i = 0; i < 3; ++i)
        EXPECT(cudaEventDestroy(ends[i]) == cudaSuccess && cudaStreamDestroy(streams[i]) == cudaSuccess);
    EXPECT(*p == expected + 2);
}

__global__ void
tell(long long *ticks)
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

FEATURE(marks_prints_and_clocks)
{
    long long *ticks = managed(32);
    cudaProfilerStart();
    nvtxRangePushA("step");
    nvtxMarkA("launch");
    tell<<<1, 4>>>(ticks);
    nvtxRangePop();
    cudaProfilerStop();
    EXPECT(done() && ticks[3] >= 0);
}
