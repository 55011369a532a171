/*
 * cub/block/block_store.cuh - in the place of NVIDIA's: cub::BlockStore. CUB documentation, "Block-wide collectives".
 * See block_load.cuh on its algorithms.
 */
#ifndef SOFTGPU_CUB_BLOCK_STORE_H
#define SOFTGPU_CUB_BLOCK_STORE_H
#pragma GCC system_header

#include <cub/softgpu_collective.cuh>

namespace cub
{

enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT,
    BLOCK_STORE_STRIPED,
    BLOCK_STORE_VECTORIZE,
    BLOCK_STORE_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED,
};

template <class T, int BlockDimX, int ItemsPerThread, BlockStoreAlgorithm Algorithm = BLOCK_STORE_DIRECT,
          int BlockDimY = 1, int BlockDimZ = 1, int LegacyArchitecture = 0>
class BlockStore
{
    enum { THREADS = BlockDimX * BlockDimY * BlockDimZ };

  public:
    struct TempStorage {
        unsigned char unused;
    };

    BlockStore()
    {
    }
    explicit BlockStore(TempStorage &)
    {
    }

    template <class Output> void Store(Output to, T (&items)[ItemsPerThread])
    {
        Store(to, items, THREADS * ItemsPerThread);
    }
    template <class Output> void Store(Output to, T (&items)[ItemsPerThread], int valid)
    {
        softgpu_detail::check_block<BlockDimX, BlockDimY, BlockDimZ>("cub::BlockStore");
        const int thread = static_cast<int>(::softgpu::self().number);
        for (int i = 0; i < ItemsPerThread; ++i) {
            const int place = Algorithm == BLOCK_STORE_STRIPED ? i * THREADS + thread : thread * ItemsPerThread + i;
            if (place < valid)
                to[place] = items[i];
        }
    }
};

} // namespace cub

#endif
