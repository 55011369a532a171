// Cooperative groups: tiles, reduce, a namespace alias, a group as a template parameter.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
template <typename Group>
__device__ int
sum_of(Group g, int v)
{
    for (int i = g.size() / 2; i > 0; i /= 2)
        v += g.shfl_down(v, i);
    return v;
}
__global__ void
k(int *out)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    auto four = cg::tiled_partition<4>(warp);
    int a = cg::reduce(warp, (int)block.thread_rank(), cg::plus<int>());
    int b = sum_of(four, 1);
    cg::sync(block);
    if (warp.thread_rank() == 0) {
        out[2 * warp.meta_group_rank()] = a;
        out[2 * warp.meta_group_rank() + 1] = b;
    }
}

int
main()
{
    int *out = managed(64);
    k<<<1, 64>>>(out);
    cudaDeviceSynchronize();
    return out[0] == 496 && out[1] == 4 && out[2] == 1520 ? 0 : 1;
}
