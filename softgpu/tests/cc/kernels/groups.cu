/*
 * groups.cu - cooperative groups: blocks, tiles of every size, coalesced threads; ranks, shuffles by rank, reductions
 * and scans.
 */
#include "check.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

template <int Size>
__global__ void
tiles(const int *x, int *out)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<Size> tile = cg::tiled_partition<Size>(block);
    const int t = block.thread_rank();
    int *mine = out + 8 * t;
    mine[0] = cg::reduce(tile, x[t], cg::plus<int>());
    mine[1] = cg::reduce(tile, x[t], cg::greater<int>());
    mine[2] = tile.shfl(x[t], 0);
    mine[3] = tile.shfl_down(x[t], 1);
    mine[4] = tile.ballot(x[t] & 1);
    mine[5] = cg::inclusive_scan(tile, x[t], cg::plus<int>());
    mine[6] = cg::exclusive_scan(tile, x[t]);
    mine[7] = tile.thread_rank() + 100 * tile.meta_group_rank() + 10000 * tile.size();
    tile.sync();
    block.sync();
}

template <int Size>
static void
test_tiles(int threads)
{
    const std::vector<int> x = random_integers(threads, 100);
    std::vector<int> wanted(8 * threads);
    for (int t = 0; t < threads; ++t) {
        const int first = t / Size * Size, last = first + Size;
        int *w = &wanted[8 * t];
        w[1] = -1;
        for (int i = first; i < last; ++i) {
            w[0] += x[i];
            w[1] = x[i] > w[1] ? x[i] : w[1];
            w[4] |= static_cast<int>(static_cast<unsigned>(x[i] & 1) << (i - first));
            w[5] += i <= t ? x[i] : 0;
            w[6] += i < t ? x[i] : 0;
        }
        w[2] = x[first];
        w[3] = t + 1 < last ? x[t + 1] : x[t];
        w[7] = t % Size + 100 * (t / Size) + 10000 * Size;
    }
    buffer<int> dx(x), out(8 * threads);
    RUN(tiles<Size><<<1, threads>>>(dx.data, out.data));
    expect_equal(out.read(), wanted, "tiles");
}

__global__ void
coalesced(const int *x, int *count, int *sums)
{
    const int t = threadIdx.x;
    if (x[t] % 3 == 0) {
        cg::coalesced_group here = cg::coalesced_threads();
        const int total = cg::reduce(here, x[t], cg::plus<int>());
        if (here.thread_rank() == 0) {
            atomicAdd(count, here.size());
            atomicAdd(sums, total);
        }
    }
}

__global__ void
ranks(unsigned *out)
{
    const cg::thread_block block = cg::this_thread_block();
    out[block.group_index().x * block.size() + block.thread_rank()] =
        static_cast<unsigned>(cg::this_grid().thread_rank()) + 1000 * block.thread_index().y;
}

int
main()
{
    test_tiles<32>(128);
    test_tiles<16>(64);
    test_tiles<8>(96);
    test_tiles<4>(32);
    test_tiles<2>(64);
    test_tiles<1>(32);

    const std::vector<int> x = random_integers(200, 90);
    int wanted_count = 0, wanted_sum = 0;
    for (int value : x) {
        wanted_count += value % 3 == 0;
        wanted_sum += value % 3 == 0 ? value : 0;
    }
    buffer<int> dx(x), count(1), sum(1);
    RUN(coalesced<<<1, 200>>>(dx.data, count.data, sum.data));
    CHECK(count.read()[0] == wanted_count && sum.read()[0] == wanted_sum, "coalesced groups: %d of %d", count.read()[0],
          wanted_count);

    buffer<unsigned> out(48);
    RUN(ranks<<<2, dim3(4, 6)>>>(out.data));
    for (unsigned i = 0; i < 48; ++i)
        CHECK(out.read()[i] == i + 1000 * (i % 24 / 4), "rank %u", i);
    return 0;
}
