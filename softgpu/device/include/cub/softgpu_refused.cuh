/*
 * cub/softgpu_refused.cuh - what of CUB the stand-in does not have, refused where a program uses it. Not for users.
 */
#ifndef SOFTGPU_CUB_REFUSED_H
#define SOFTGPU_CUB_REFUSED_H
#pragma GCC system_header

#include <cuda_runtime.h>

namespace cub
{

namespace softgpu_detail
{
template <class...> struct never {
    enum { value = 0 };
};
} // namespace softgpu_detail

#define SOFTGPU_REFUSED_CALL(device, function)                                                                        \
    template <class... Arguments> static cudaError_t function(Arguments &&...)                                        \
    {                                                                                                                 \
        static_assert(softgpu_detail::never<Arguments...>::value,                                                     \
                      "softgpu-cc does not support cub::" #device "::" #function                                      \
                      "; write a kernel with cub::BlockReduce or cub::BlockScan, or compute the result on the host"); \
        return cudaErrorNotSupported;                                                                                 \
    }

namespace softgpu_detail
{
struct refused_scan {
    SOFTGPU_REFUSED_CALL(DeviceScan, ExclusiveSumByKey)
    SOFTGPU_REFUSED_CALL(DeviceScan, ExclusiveScanByKey)
    SOFTGPU_REFUSED_CALL(DeviceScan, InclusiveSumByKey)
    SOFTGPU_REFUSED_CALL(DeviceScan, InclusiveScanByKey)
};

struct refused_select {
    SOFTGPU_REFUSED_CALL(DeviceSelect, FlaggedIf)
    SOFTGPU_REFUSED_CALL(DeviceSelect, UniqueByKey)
};
} // namespace softgpu_detail

struct DeviceSegmentedRadixSort {
    SOFTGPU_REFUSED_CALL(DeviceSegmentedRadixSort, SortKeys)
    SOFTGPU_REFUSED_CALL(DeviceSegmentedRadixSort, SortKeysDescending)
    SOFTGPU_REFUSED_CALL(DeviceSegmentedRadixSort, SortPairs)
    SOFTGPU_REFUSED_CALL(DeviceSegmentedRadixSort, SortPairsDescending)
};
#undef SOFTGPU_REFUSED_CALL

/* Types first and numbers after them, as these collectives have their parameters. */
#define SOFTGPU_REFUSED_COLLECTIVE(name, parameters)                                           \
    template <parameters> class name                                                           \
    {                                                                                          \
        static_assert(softgpu_detail::never<T>::value,                                         \
                      "softgpu-cc does not support cub::" #name                                \
                      "; cub::BlockReduce, BlockScan, BlockRadixSort, BlockLoad, BlockStore, " \
                      "WarpReduce and WarpScan are there");                                    \
                                                                                               \
      public:                                                                                  \
        struct TempStorage {                                                                   \
        };                                                                                     \
    };
#define SOFTGPU_NUMBERS class T, int... Numbers
#define SOFTGPU_SORT    class T, int Threads, int Items, class Value = T, int... Numbers
SOFTGPU_REFUSED_COLLECTIVE(BlockAdjacentDifference, SOFTGPU_NUMBERS)
SOFTGPU_REFUSED_COLLECTIVE(BlockDiscontinuity, SOFTGPU_NUMBERS)
SOFTGPU_REFUSED_COLLECTIVE(BlockExchange, SOFTGPU_NUMBERS)
SOFTGPU_REFUSED_COLLECTIVE(BlockHistogram, SOFTGPU_NUMBERS)
SOFTGPU_REFUSED_COLLECTIVE(BlockMergeSort, SOFTGPU_SORT)
SOFTGPU_REFUSED_COLLECTIVE(BlockShuffle, SOFTGPU_NUMBERS)
SOFTGPU_REFUSED_COLLECTIVE(WarpExchange, SOFTGPU_NUMBERS)
SOFTGPU_REFUSED_COLLECTIVE(WarpLoad, SOFTGPU_NUMBERS)
SOFTGPU_REFUSED_COLLECTIVE(WarpMergeSort, SOFTGPU_SORT)
SOFTGPU_REFUSED_COLLECTIVE(WarpStore, SOFTGPU_NUMBERS)
#undef SOFTGPU_NUMBERS
#undef SOFTGPU_SORT
#undef SOFTGPU_REFUSED_COLLECTIVE

} // namespace cub

#endif
