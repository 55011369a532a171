/*
 * cub/warp/warp_reduce.cuh - in the place of NVIDIA's: cub::WarpReduce. CUB documentation, "Warp-wide collectives".
 *
 * The first lane of the logical warp (of the segment) gets the result. The others get back what they brought, so that a
 * kernel which takes their value for the result is wrong here too.
 */
#ifndef SOFTGPU_CUB_WARP_REDUCE_H
#define SOFTGPU_CUB_WARP_REDUCE_H
#pragma GCC system_header

#include <cub/softgpu_collective.cuh>
#include <cub/thread/thread_operators.cuh>

namespace cub
{

template <class T, int LogicalWarpThreads = 32, int LegacyArchitecture = 0> class WarpReduce
{
  public:
    struct TempStorage {
        unsigned char unused;
    };

    explicit WarpReduce(TempStorage &)
    {
    }

    template <class Operation> T Reduce(T input, Operation operation)
    {
        return Reduce(input, operation, LogicalWarpThreads);
    }
    template <int Items, class Operation> T Reduce(T (&inputs)[Items], Operation operation)
    {
        return Reduce(softgpu_detail::fold(inputs, operation), operation);
    }
    /* Of the first `valid_items` lanes. */
    template <class Operation> T Reduce(T input, Operation operation, int valid_items)
    {
        const unsigned lane = softgpu::lane() % LogicalWarpThreads;
        softgpu_detail::slot<T> mine(input, static_cast<int>(lane) < valid_items);
        softgpu_detail::warp_scan<LogicalWarpThreads>("cub::WarpReduce", &mine, &operation);
        return lane == 0 ? mine.total : input;
    }

    T Sum(T input)
    {
        return Reduce(input, cub::Sum());
    }
    template <int Items> T Sum(T (&inputs)[Items])
    {
        return Reduce(inputs, cub::Sum());
    }
    T Sum(T input, int valid_items)
    {
        return Reduce(input, cub::Sum(), valid_items);
    }
    T Max(T input)
    {
        return Reduce(input, cub::Max());
    }
    T Max(T input, int valid_items)
    {
        return Reduce(input, cub::Max(), valid_items);
    }
    T Min(T input)
    {
        return Reduce(input, cub::Min());
    }
    T Min(T input, int valid_items)
    {
        return Reduce(input, cub::Min(), valid_items);
    }

    /* `flag`: this lane begins a segment, or is the last of one. The first lane of each gets its result. */
    template <class Operation, class Flag> T HeadSegmentedReduce(T input, Flag flag, Operation operation)
    {
        return segmented<true>(input, flag ? true : false, operation);
    }
    template <class Operation, class Flag> T TailSegmentedReduce(T input, Flag flag, Operation operation)
    {
        return segmented<false>(input, flag ? true : false, operation);
    }
    template <class Flag> T HeadSegmentedSum(T input, Flag flag)
    {
        return HeadSegmentedReduce(input, flag, cub::Sum());
    }
    template <class Flag> T TailSegmentedSum(T input, Flag flag)
    {
        return TailSegmentedReduce(input, flag, cub::Sum());
    }

  private:
    template <bool Heads, class Operation> T segmented(T input, bool flag, Operation operation)
    {
        softgpu_detail::slot<T> mine(input, true, flag);
        const softgpu_gathering how = {Heads ? "cub::WarpReduce::HeadSegmentedReduce"
                                             : "cub::WarpReduce::TailSegmentedReduce",
                                       softgpu_detail::finish_segments<T, Operation, Heads>};
        softgpu_detail::meet(how, softgpu_detail::lanes_of_warp<LogicalWarpThreads>(), &mine, &operation);
        return mine.total;
    }
};

} // namespace cub

#endif
