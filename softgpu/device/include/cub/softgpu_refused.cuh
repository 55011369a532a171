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
struct refused_reduce {
#define SOFTGPU_CALL(function) SOFTGPU_REFUSED_CALL(DeviceReduce, function)
    SOFTGPU_CALL(TransformReduce)
    SOFTGPU_CALL(ReduceByKey)
#undef SOFTGPU_CALL
};

struct refused_scan {
#define SOFTGPU_CALL(function) SOFTGPU_REFUSED_CALL(DeviceScan, function)
    SOFTGPU_CALL(ExclusiveSumByKey)
    SOFTGPU_CALL(ExclusiveScanByKey)
    SOFTGPU_CALL(InclusiveSumByKey)
    SOFTGPU_CALL(InclusiveScanByKey)
#undef SOFTGPU_CALL
};

struct refused_select {
#define SOFTGPU_CALL(function) SOFTGPU_REFUSED_CALL(DeviceSelect, function)
    SOFTGPU_CALL(FlaggedIf)
    SOFTGPU_CALL(UniqueByKey)
#undef SOFTGPU_CALL
};
} // namespace softgpu_detail

struct DeviceSegmentedReduce {
#define SOFTGPU_CALL(function) SOFTGPU_REFUSED_CALL(DeviceSegmentedReduce, function)
    SOFTGPU_CALL(Reduce)
    SOFTGPU_CALL(Sum)
    SOFTGPU_CALL(Min)
    SOFTGPU_CALL(Max)
    SOFTGPU_CALL(ArgMin)
    SOFTGPU_CALL(ArgMax)
#undef SOFTGPU_CALL
};

struct DeviceSegmentedRadixSort {
#define SOFTGPU_CALL(function) SOFTGPU_REFUSED_CALL(DeviceSegmentedRadixSort, function)
    SOFTGPU_CALL(SortKeys)
    SOFTGPU_CALL(SortKeysDescending)
    SOFTGPU_CALL(SortPairs)
    SOFTGPU_CALL(SortPairsDescending)
#undef SOFTGPU_CALL
};

struct DeviceHistogram {
#define SOFTGPU_CALL(function) SOFTGPU_REFUSED_CALL(DeviceHistogram, function)
    SOFTGPU_CALL(HistogramEven)
    SOFTGPU_CALL(HistogramRange)
#undef SOFTGPU_CALL
};

struct DeviceRunLengthEncode {
#define SOFTGPU_CALL(function) SOFTGPU_REFUSED_CALL(DeviceRunLengthEncode, function)
    SOFTGPU_CALL(Encode)
    SOFTGPU_CALL(NonTrivialRuns)
#undef SOFTGPU_CALL
};
#undef SOFTGPU_REFUSED_CALL

/* Types first and numbers after them, as these collectives have their parameters. */
#define SOFTGPU_REFUSED_COLLECTIVE(name, parameters)                                                            \
    template <parameters> class name                                                                            \
    {                                                                                                           \
        static_assert(softgpu_detail::never<T>::value, "softgpu-cc does not support cub::" #name                \
                                                       "; cub::BlockReduce, BlockScan, BlockLoad, BlockStore, " \
                                                       "WarpReduce and WarpScan are there");                    \
                                                                                                                \
      public:                                                                                                   \
        struct TempStorage {                                                                                    \
        };                                                                                                      \
    };
#define SOFTGPU_NUMBERS class T, int... Numbers
#define SOFTGPU_SORT    class T, int Threads, int Items, class Value = T, int... Numbers
SOFTGPU_REFUSED_COLLECTIVE(BlockAdjacentDifference, SOFTGPU_NUMBERS)
SOFTGPU_REFUSED_COLLECTIVE(BlockDiscontinuity, SOFTGPU_NUMBERS)
SOFTGPU_REFUSED_COLLECTIVE(BlockExchange, SOFTGPU_NUMBERS)
SOFTGPU_REFUSED_COLLECTIVE(BlockHistogram, SOFTGPU_NUMBERS)
SOFTGPU_REFUSED_COLLECTIVE(BlockMergeSort, SOFTGPU_SORT)
SOFTGPU_REFUSED_COLLECTIVE(BlockRadixSort, SOFTGPU_SORT)
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
