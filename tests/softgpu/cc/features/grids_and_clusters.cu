// grid.sync() between the steps of a cooperative launch, with shared memory that each block keeps, early exits, and a
// barrier of the user's that spins; clusters that read each other's shared memory; launches that CUDA refuses.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// A prefix sum of the grid: each block's sum, then each block adds those before it, twice.
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

// As programs did it before there was grid.sync().
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

static int
grids()
{
    enum { BLOCKS = 7, THREADS = 96, ALL = BLOCKS * THREADS };
    int *x = managed(4 * ALL), *sums = managed(4 * BLOCKS), *seen = managed(4 * BLOCKS), rounds = 2, wrong = 0;
    unsigned *count = managed(4);
    void *arguments[] = {&x, &sums, &rounds}, *spins[] = {&count, &seen};
    for (int i = 0; i < ALL; ++i)
        x[i] = 1;
    wrong += cudaLaunchCooperativeKernel(scan, BLOCKS, THREADS, arguments, 4 * THREADS) != cudaSuccess;
    wrong += cudaLaunchCooperativeKernel(spin, BLOCKS, 64, spins) != cudaSuccess;
    wrong += cudaDeviceSynchronize() != cudaSuccess;
    for (int i = 0; i < ALL; ++i)
        wrong += x[i] != (i + 1) * (i + 2) / 2;
    for (int i = 0; i < BLOCKS; ++i)
        wrong += seen[i] != BLOCKS;
    wrong += cudaLaunchCooperativeKernel(scan, 1 << 20, THREADS, arguments) != cudaErrorCooperativeLaunchTooLarge;
    return wrong + (cudaGetLastError() != cudaErrorCooperativeLaunchTooLarge);
}

// A graph's node stays cooperative when it gets other parameters.
static int
graphs()
{
    int *first = managed(4 * 64), *second = managed(4 * 64), *sums = managed(4 * 2), rounds = 1, wrong = 0;
    void *arguments[] = {&first, &sums, &rounds}, *others[] = {&second, &sums, &rounds};
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t node;
    size_t count = 1;
    for (int i = 0; i < 64; ++i)
        first[i] = second[i] = 1;
    wrong += cudaStreamCreate(&stream) != cudaSuccess;
    wrong += cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) != cudaSuccess;
    wrong += cudaLaunchCooperativeKernel(scan, 2, 32, arguments, 4 * 32, stream) != cudaSuccess;
    wrong += cudaStreamEndCapture(stream, &graph) != cudaSuccess;
    wrong += cudaGraphGetNodes(graph, &node, &count) != cudaSuccess;
    wrong += cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess;
    wrong += cudaGraphLaunch(exec, stream) != cudaSuccess;
    cudaKernelNodeParams parameters = {};
    parameters.func = reinterpret_cast<void *>(scan);
    parameters.gridDim = 2;
    parameters.blockDim = 32;
    parameters.sharedMemBytes = 4 * 32;
    parameters.kernelParams = others;
    wrong += cudaGraphExecKernelNodeSetParams(exec, node, &parameters) != cudaSuccess;
    wrong += cudaGraphLaunch(exec, stream) != cudaSuccess || cudaStreamSynchronize(stream) != cudaSuccess;
    return wrong + (first[63] != 64) + (second[63] != 64);
}

static int
clusters()
{
    int *x = managed(4 * 4 * 2 * 32), wrong = 0;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = attribute.val.clusterDim.y = 2;
    attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(4, 2);
    config.blockDim = 32;
    config.attrs = &attribute;
    config.numAttrs = 1;
    wrong += cudaLaunchKernelEx(&config, neighbours, x) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess;
    for (int i = 0; i < 4 * 2 * 32; ++i) {
        const int block = i / 32, column = block % 4, rank = (block / 4 * 2 + column % 2 + 1) % 4;
        wrong += x[i] != rank / 2 * 1000 + (column / 2 * 2 + rank % 2) * 100 + 31 - i % 32;
    }
    neighbours<<<dim3(4, 2), 32>>>(x);
    wrong += cudaDeviceSynchronize() != cudaSuccess || x[5 * 32] != 1131;
    config.gridDim = dim3(3, 2);
    wrong += cudaLaunchKernelEx(&config, neighbours, x) == cudaSuccess;
    return wrong + (cudaGetLastError() == cudaSuccess);
}

int
main()
{
    return grids() + graphs() + clusters();
}
