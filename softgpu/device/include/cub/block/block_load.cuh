/*
 * cub/block/block_load.cuh - in the place of NVIDIA's: cub::BlockLoad. CUB documentation, "Block-wide collectives".
 *
 * What the algorithms differ in is how a GPU's memory is reached; here only the arrangement counts: each thread gets
 * items in a row, or, with BLOCK_LOAD_STRIPED, every item that is a block's size further. Items beyond `valid` keep
 * what is in the array, or get the value that is given for them.
 */
#ifndef SOFTGPU_CUB_BLOCK_LOAD_H
#define SOFTGPU_CUB_BLOCK_LOAD_H
#pragma GCC system_header

#include <cub/softgpu_collective.cuh>

namespace cub
{

enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT,
    BLOCK_LOAD_STRIPED,
    BLOCK_LOAD_VECTORIZE,
    BLOCK_LOAD_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED,
};

template <class T, int BlockDimX, int ItemsPerThread, BlockLoadAlgorithm Algorithm = BLOCK_LOAD_DIRECT,
          int BlockDimY = 1, int BlockDimZ = 1, int LegacyArchitecture = 0>
class BlockLoad
{
    enum { THREADS = BlockDimX * BlockDimY * BlockDimZ };

    static int place(int item)
    {
        softgpu_detail::check_block<BlockDimX, BlockDimY, BlockDimZ>("cub::BlockLoad");
        const int thread = static_cast<int>(::softgpu::self().number);
        return Algorithm == BLOCK_LOAD_STRIPED ? item * THREADS + thread : thread * ItemsPerThread + item;
    }

  public:
    struct TempStorage {
        unsigned char unused;
    };

    BlockLoad()
    {
    }
    explicit BlockLoad(TempStorage &)
    {
    }

    template <class Input> void Load(Input from, T (&items)[ItemsPerThread])
    {
        Load(from, items, THREADS * ItemsPerThread);
    }
    template <class Input> void Load(Input from, T (&items)[ItemsPerThread], int valid)
    {
        for (int i = 0; i < ItemsPerThread; ++i) {
            if (place(i) < valid)
                items[i] = from[place(i)];
        }
    }
    template <class Input, class Default>
    void Load(Input from, T (&items)[ItemsPerThread], int valid, Default otherwise)
    {
        for (int i = 0; i < ItemsPerThread; ++i)
            items[i] = otherwise;
        Load(from, items, valid);
    }
};

} // namespace cub

#endif
