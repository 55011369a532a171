// Coalesced threads in a branch, tiles of tiles, groups by label and by condition, groups' votes and shuffles, a thread
// block's ranks.
#include <cooperative_groups.h>
using namespace cooperative_groups;
__device__ int
aggregated_increment(int *counter)
{
    auto active = coalesced_threads();
    int first = 0;
    if (active.thread_rank() == 0)
        first = atomicAdd(counter, static_cast<int>(active.size()));
    return active.shfl(first, 0) + static_cast<int>(active.thread_rank());
}
__global__ void
filter(const int *in, int *out, int *counter, int *sums)
{
    thread_block block = this_thread_block();
    const unsigned rank = block.thread_rank();
    if (in[rank] % 2 == 1)
        out[aggregated_increment(counter)] = in[rank];
    block.sync();
    thread_block_tile<32> warp = tiled_partition<32>(block);
    auto quad = tiled_partition<4>(warp);
    int v = in[rank];
    for (unsigned i = quad.size() / 2; i > 0; i /= 2)
        v += quad.shfl_down(v, i);
    const bool is_large = quad.any(v > 133);
    if (quad.thread_rank() == 0)
        sums[warp.meta_group_rank() * 8 + quad.meta_group_rank()] = is_large ? -v : v;
}
__global__ void
partition(int *sizes, int *ranks)
{
    auto warp = tiled_partition<32>(this_thread_block());
    const int lane = warp.thread_rank();
    const coalesced_group same = labeled_partition(warp, 7 - lane % 5);
    const auto low = binary_partition(warp, lane < 10);
    sizes[lane] = same.size() * 100 + low.size();
    ranks[lane] = same.meta_group_rank() * 100 + same.meta_group_size() * 10 + low.meta_group_rank();
}

int
main()
{
    int *in = managed(256);
    int *out = managed(256);
    int *counter = managed(4);
    int *sums = managed(64);
    *counter = 0;
    for (int i = 0; i < 64; ++i)
        in[i] = i;
    filter<<<1, 64>>>(in, out, counter, sums);
    cudaDeviceSynchronize();
    int sum = 0;
    for (int i = 0; i < 32; ++i)
        sum += out[i];
    partition<<<1, 32>>>(in, out);
    cudaDeviceSynchronize();
    if (in[0] != 710 || in[1] != 710 || in[31] != 722 || out[1] != 151 || out[30] != 50 || out[14] != 450)
        return 2;
    return *counter == 32 && sum == 1024 && sums[0] == 6 && sums[8] == -134 ? 0 : 1;
}
