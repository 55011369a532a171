/*
 * cub/device/device_segmented_reduce.cuh - in the place of NVIDIA's: cub::DeviceSegmentedReduce. CUB documentation,
 * "Device-wide primitives". Segment s has the items from begins[s] to ends[s]; of a segment without any, ArgMin and
 * ArgMax give the key 1.
 */
#ifndef SOFTGPU_CUB_DEVICE_SEGMENTED_REDUCE_H
#define SOFTGPU_CUB_DEVICE_SEGMENTED_REDUCE_H
#pragma GCC system_header

#include <cub/softgpu_device.cuh>

#include <cstdint>

namespace cub
{

class DeviceSegmentedReduce
{
    /* reduce(items, begin, end) is what one segment comes to. */
    template <class In, class Out, class Begin, class End, class Reduction>
    static cudaError_t segments(void *storage, size_t &storage_bytes, In in, Out out, int64_t count, Begin begins,
                                End ends, cudaStream_t stream, Reduction reduce)
    {
        auto from = softgpu_detail::in_kernel(in);
        auto to = softgpu_detail::in_kernel(out);
        auto begin = softgpu_detail::in_kernel(begins);
        auto end = softgpu_detail::in_kernel(ends);
        return softgpu_detail::two_phases(storage, storage_bytes, count, stream, [=](ptrdiff_t n) mutable {
            for (ptrdiff_t s = 0; s < n; ++s)
                to[s] = reduce(from, static_cast<ptrdiff_t>(begin[s]), static_cast<ptrdiff_t>(end[s]));
        });
    }

    template <class Operation, class In, class Out, class Begin, class End>
    static cudaError_t find(void *storage, size_t &storage_bytes, In in, Out out, int64_t count, Begin begins, End ends,
                            cudaStream_t stream, softgpu_detail::value_of<In> none)
    {
        typedef KeyValuePair<int, softgpu_detail::value_of<In>> pair;
        typedef softgpu_detail::value_for<Out, pair *> result;
        return segments(storage, storage_bytes, in, out, count, begins, ends, stream,
                        [=](decltype(softgpu_detail::in_kernel(in)) &from, ptrdiff_t begin, ptrdiff_t end) {
                            pair found = begin < end ? pair(0, from[begin]) : pair(1, none);
                            for (ptrdiff_t i = begin + 1; i < end; ++i)
                                found = Operation()(found, pair(static_cast<int>(i - begin), from[i]));
                            return result(found.key, found.value);
                        });
    }

  public:
    template <class In, class Out, class Begin, class End, class Operation, class T>
    static cudaError_t Reduce(void *storage, size_t &storage_bytes, In in, Out out, int64_t count, Begin begins,
                              End ends, Operation operation, T initial, cudaStream_t stream = nullptr)
    {
        typedef softgpu_detail::value_of<In> item;
        typedef softgpu_detail::accumulator<Operation, T, item> total;
        return segments(storage, storage_bytes, in, out, count, begins, ends, stream,
                        [=](decltype(softgpu_detail::in_kernel(in)) &from, ptrdiff_t begin, ptrdiff_t end) mutable {
                            total sum = static_cast<total>(initial);
                            for (ptrdiff_t i = begin; i < end; ++i)
                                sum = operation(sum, static_cast<item>(from[i]));
                            return sum;
                        });
    }

#define SOFTGPU_SEGMENTED(name, call)                                                                          \
    template <class In, class Out, class Begin, class End>                                                     \
    static cudaError_t name(void *storage, size_t &storage_bytes, In in, Out out, int64_t count, Begin begins, \
                            End ends, cudaStream_t stream = nullptr)                                           \
    {                                                                                                          \
        typedef softgpu_detail::value_of<In> item;                                                             \
        return call;                                                                                           \
    }
    SOFTGPU_SEGMENTED(Sum, Reduce(storage, storage_bytes, in, out, count, begins, ends, cub::Sum(), item(), stream))
    SOFTGPU_SEGMENTED(Min, Reduce(storage, storage_bytes, in, out, count, begins, ends, cub::Min(),
                                  softgpu_detail::largest<item>(), stream))
    SOFTGPU_SEGMENTED(Max, Reduce(storage, storage_bytes, in, out, count, begins, ends, cub::Max(),
                                  softgpu_detail::least<item>(), stream))
    SOFTGPU_SEGMENTED(ArgMin, find<cub::ArgMin>(storage, storage_bytes, in, out, count, begins, ends, stream,
                                                softgpu_detail::largest<item>()))
    SOFTGPU_SEGMENTED(ArgMax, find<cub::ArgMax>(storage, storage_bytes, in, out, count, begins, ends, stream,
                                                softgpu_detail::least<item>()))
#undef SOFTGPU_SEGMENTED
};

} // namespace cub

#endif
