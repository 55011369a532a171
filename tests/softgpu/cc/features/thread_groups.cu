// Groups whose kind is known at run time: a sum by shared memory for any group, tiles of a size that is an argument.
#include <cooperative_groups.h>
using namespace cooperative_groups;
__device__ int
reduce_sum(thread_group g, int *temp, int val)
{
    const int lane = g.thread_rank();
    for (int i = g.size() / 2; i > 0; i /= 2) {
        temp[lane] = val;
        g.sync();
        if (lane < i)
            val += temp[lane + i];
        g.sync();
    }
    return val;
}
__global__ void
sums(const int *in, int *out, unsigned tile_size)
{
    extern __shared__ int temp[];
    const thread_block block = this_thread_block();
    const int whole = reduce_sum(block, temp, in[block.thread_rank()]);
    if (block.thread_rank() == 0)
        out[0] = whole;
    sync(block);
    thread_group tile = tiled_partition(block, tile_size), half = tiled_partition(tile, tile.size() / 2);
    const int number = block.thread_rank() / tile_size;
    const int part = reduce_sum(tile, temp + number * tile_size, in[block.thread_rank()]);
    if (thread_rank(tile) == 0)
        out[1 + number] = part + 10000 * half.size();
    if (block.thread_rank() % 3 == 0) {
        const thread_group third = coalesced_threads();
        if (third.thread_rank() == 0)
            atomicAdd(&out[17], third.size());
    }
}

int
main()
{
    int *in = managed(64 * sizeof(int));
    int *out = managed(18 * sizeof(int));
    for (int i = 0; i < 64; ++i)
        in[i] = i;
    out[17] = 0;
    sums<<<1, 64, 64 * sizeof(int)>>>(in, out, 8);
    cudaDeviceSynchronize();
    if (out[0] != 2016 || out[17] != 22)
        return 1;
    return out[1] == 40028 && out[5] == 40284 && out[8] == 40476 ? 0 : 2;
}
