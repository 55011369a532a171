// Breadth-first search by frontiers: a queue filled by atomics, a flag that the host reads, ping-pong of two buffers.
#include <utility>
#include <vector>
__global__ void
expand(const int *offsets, const int *edges, const int *frontier, int count, int *next, int *next_count, int *depth,
       int level)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const int node = frontier[i];
    for (int e = offsets[node]; e < offsets[node + 1]; ++e) {
        if (atomicCAS(&depth[edges[e]], -1, level) == -1)
            next[atomicAdd(next_count, 1)] = edges[e];
    }
}

int
main()
{
    const int nodes = 64;
    int *offsets = managed((nodes + 1) * sizeof(int));
    int *edges = managed(2 * nodes * sizeof(int));
    int *frontier = managed(nodes * sizeof(int));
    int *next = managed(nodes * sizeof(int));
    int *next_count = managed(sizeof(int));
    int *depth = managed(nodes * sizeof(int));
    for (int i = 0; i < nodes; ++i) {
        offsets[i] = 2 * i, depth[i] = -1;
        edges[2 * i] = (2 * i + 1) % nodes, edges[2 * i + 1] = (2 * i + 2) % nodes;
    }
    offsets[nodes] = 2 * nodes;
    frontier[0] = 0, depth[0] = 0;
    int count = 1, level = 0;
    while (count > 0) {
        cudaMemsetAsync(next_count, 0, sizeof(int));
        expand<<<(count + 31) / 32, 32>>>(offsets, edges, frontier, count, next, next_count, depth, ++level);
        cudaMemcpy(&count, next_count, sizeof(int), cudaMemcpyDeviceToHost);
        std::swap(frontier, next);
    }
    for (int i = 0; i < nodes - 1; ++i) {
        int expected = 0;
        while ((2 << expected) - 1 <= i)
            ++expected;
        if (depth[i] != expected)
            return i + 1;
    }
    return level == 7 ? 0 : 100;
}
