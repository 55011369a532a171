/*
 * cub/warp/warp_scan.cuh - in the place of NVIDIA's: cub::WarpScan. CUB documentation, "Warp-wide collectives".
 *
 * An exclusive scan without a first value leaves the first lane's output as it was brought.
 */
#ifndef SOFTGPU_CUB_WARP_SCAN_H
#define SOFTGPU_CUB_WARP_SCAN_H
#pragma GCC system_header

#include <cub/softgpu_collective.cuh>
#include <cub/thread/thread_operators.cuh>

namespace cub
{

template <class T, int LogicalWarpThreads = 32, int LegacyArchitecture = 0> class WarpScan
{
    typedef softgpu_detail::slot<T> slot;

    template <class Operation> static slot scanned(const T &input, Operation &operation)
    {
        slot mine(input);
        softgpu_detail::warp_scan<LogicalWarpThreads>("cub::WarpScan", &mine, &operation);
        return mine;
    }
    static bool is_first()
    {
        return softgpu::lane() % LogicalWarpThreads == 0;
    }

  public:
    struct TempStorage {
        unsigned char unused;
    };

    explicit WarpScan(TempStorage &)
    {
    }

    template <class Operation> void InclusiveScan(T input, T &output, Operation operation)
    {
        output = scanned(input, operation).inclusive;
    }
    template <class Operation> void InclusiveScan(T input, T &output, Operation operation, T &warp_aggregate)
    {
        const slot mine = scanned(input, operation);
        output = mine.inclusive;
        warp_aggregate = mine.total;
    }
    template <class Operation> void ExclusiveScan(T input, T &output, Operation operation)
    {
        output = scanned(input, operation).before;
    }
    template <class Operation> void ExclusiveScan(T input, T &output, T initial, Operation operation)
    {
        T ignored = input;
        ExclusiveScan(input, output, initial, operation, ignored);
    }
    /* The aggregate is of the items, without the first value. */
    template <class Operation> void ExclusiveScan(T input, T &output, T initial, Operation operation, T &warp_aggregate)
    {
        const slot mine = scanned(input, operation);
        output = is_first() ? initial : operation(initial, mine.before);
        warp_aggregate = mine.total;
    }
    template <class Operation> void Scan(T input, T &inclusive, T &exclusive, Operation operation)
    {
        const slot mine = scanned(input, operation);
        inclusive = mine.inclusive;
        exclusive = mine.before;
    }
    template <class Operation> void Scan(T input, T &inclusive, T &exclusive, T initial, Operation operation)
    {
        const slot mine = scanned(input, operation);
        inclusive = operation(initial, mine.inclusive);
        exclusive = is_first() ? initial : operation(initial, mine.before);
    }

    template <class... More> void InclusiveSum(T input, T &output, More &...aggregate)
    {
        InclusiveScan(input, output, cub::Sum(), aggregate...);
    }
    template <class... More> void ExclusiveSum(T input, T &output, More &...aggregate)
    {
        ExclusiveScan(input, output, T(), cub::Sum(), aggregate...);
    }

    T Broadcast(T input, unsigned source_lane)
    {
        softgpu_detail::slot<T> mine(input, softgpu::lane() % LogicalWarpThreads == source_lane);
        cub::Sum not_used; /* one item counts */
        softgpu_detail::warp_scan<LogicalWarpThreads>("cub::WarpScan::Broadcast", &mine, &not_used);
        return mine.total;
    }
};

} // namespace cub

#endif
