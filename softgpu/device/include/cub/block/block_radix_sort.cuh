/*
 * cub/block/block_radix_sort.cuh - in the place of NVIDIA's: cub::BlockRadixSort. CUB documentation, "Block-wide
 * collectives". The block's first thread sorts, as cub::DeviceRadixSort does, between two barriers. As with CUB, a
 * barrier of the user's must stand before the storage is used again.
 */
#ifndef SOFTGPU_CUB_BLOCK_RADIX_SORT_H
#define SOFTGPU_CUB_BLOCK_RADIX_SORT_H
#pragma GCC system_header

#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>

namespace cub
{

template <class K, int BlockDimX, int Items, class V = NullType, int RadixBits = 4, bool Memoizes = true,
          BlockScanAlgorithm Algorithm = BLOCK_SCAN_WARP_SCANS,
          cudaSharedMemConfig Config = cudaSharedMemBankSizeFourByte, int BlockDimY = 1, int BlockDimZ = 1>
class BlockRadixSort
{
    enum { THREADS = BlockDimX * BlockDimY * BlockDimZ, COUNT = THREADS * Items };

    /* Striped: a thread's items are THREADS apart in the result. */
    void sort(K (&keys)[Items], V *values, int begin_bit, int end_bit, bool descending, bool striped)
    {
        softgpu_detail::check_block<BlockDimX, BlockDimY, BlockDimZ>("cub::BlockRadixSort");
        const unsigned me = ::softgpu::self().number;
        for (unsigned i = 0; i < Items; ++i) {
            storage.keys.set(me * Items + i, keys[i]);
            if (values != nullptr)
                storage.values.set(me * Items + i, values[i]);
        }
        __syncthreads();
        if (me == 0)
            softgpu_detail::radix_sort(&storage.keys.at(0), &storage.keys.at(COUNT), &storage.values.at(0),
                                       &storage.values.at(COUNT), COUNT, begin_bit, end_bit, descending);
        __syncthreads();
        for (unsigned i = 0; i < Items; ++i) {
            const unsigned at = COUNT + (striped ? i * THREADS + me : me * Items + i);
            keys[i] = storage.keys.at(at);
            if (values != nullptr)
                values[i] = storage.values.at(at);
        }
    }

  public:
    struct TempStorage {
        softgpu_detail::room<K, 2 * COUNT> keys; /* as they come, and sorted */
        softgpu_detail::room<V, 2 * COUNT> values;
    };

    BlockRadixSort() : storage(softgpu_detail::own_storage<BlockRadixSort, TempStorage>())
    {
    }
    explicit BlockRadixSort(TempStorage &temp_storage) : storage(temp_storage)
    {
    }

#define SOFTGPU_SORT(name, descending, striped)                                                   \
    void name(K(&keys)[Items], int begin_bit = 0, int end_bit = sizeof(K) * 8)                    \
    {                                                                                             \
        sort(keys, nullptr, begin_bit, end_bit, descending, striped);                             \
    }                                                                                             \
    void name(K(&keys)[Items], V(&values)[Items], int begin_bit = 0, int end_bit = sizeof(K) * 8) \
    {                                                                                             \
        sort(keys, values, begin_bit, end_bit, descending, striped);                              \
    }
    SOFTGPU_SORT(Sort, false, false)
    SOFTGPU_SORT(SortDescending, true, false)
    SOFTGPU_SORT(SortBlockedToStriped, false, true)
    SOFTGPU_SORT(SortDescendingBlockedToStriped, true, true)
#undef SOFTGPU_SORT

  private:
    TempStorage &storage;
};

} // namespace cub

#endif
