/*
 * cub/block/block_scan.cuh - in the place of NVIDIA's: cub::BlockScan. CUB documentation, "Block-wide collectives".
 *
 * All algorithms are one here: warps first, then each thread combines the results of the warps before its own, behind
 * one barrier. An exclusive scan without a first value leaves the first thread's output as it was brought. As with CUB,
 * a barrier of the user's must stand before the storage is used again.
 */
#ifndef SOFTGPU_CUB_BLOCK_SCAN_H
#define SOFTGPU_CUB_BLOCK_SCAN_H
#pragma GCC system_header

#include <cub/softgpu_collective.cuh>
#include <cub/thread/thread_operators.cuh>

namespace cub
{

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <class T, int BlockDimX, BlockScanAlgorithm Algorithm = BLOCK_SCAN_RAKING, int BlockDimY = 1,
          int BlockDimZ = 1, int LegacyArchitecture = 0>
class BlockScan
{
    enum { THREADS = BlockDimX * BlockDimY * BlockDimZ, WARPS = softgpu_detail::warps_in<THREADS>::count };

    /* What a thread knows: what its own item came to, and what was before it, if anything. */
    struct result {
        T inclusive, before, total;
        bool has_before;
    };

    template <class Operation> result scanned(const T &input, Operation &operation)
    {
        softgpu_detail::check_block<BlockDimX, BlockDimY, BlockDimZ>("cub::BlockScan");
        const unsigned warp = ::softgpu::self().number / 32, lane = ::softgpu::self().number % 32;
        softgpu_detail::slot<T> mine(input);
        softgpu_detail::warp_scan<32>("cub::BlockScan", &mine, &operation);
        if (lane == 0)
            storage.warps.set(warp, mine.total);
        __syncthreads();

        result all = {mine.inclusive, mine.before, storage.warps.at(0), lane != 0};
        for (unsigned w = 0; w < WARPS; ++w) {
            if (w == warp && w != 0) { /* `total` is what all warps before this one came to */
                all.inclusive = operation(all.total, mine.inclusive);
                all.before = lane != 0 ? operation(all.total, mine.before) : all.total;
                all.has_before = true;
            }
            if (w != 0)
                all.total = operation(all.total, storage.warps.at(w));
        }
        return all;
    }

    /* The first warp asks the user's functor; the prefix that its first thread gets goes before all items. */
    template <class Callback> T asked_prefix(const T &total, Callback &callback)
    {
        if (::softgpu::self().number < 32) {
            const T prefix = callback(total);
            if (::softgpu::self().number == 0)
                storage.prefix.set(0, prefix);
        }
        __syncthreads();
        return storage.prefix.at(0);
    }

    /* Items of one thread from what they came to: each output is what was before the item, or that and the item. */
    template <int Items, class Operation>
    static void spread(T (&input)[Items], T (&output)[Items], bool has_before, T before, Operation &operation,
                       bool is_inclusive)
    {
        for (int i = 0; i < Items; ++i) {
            const T item = input[i], inclusive = has_before ? operation(before, item) : item;
            output[i] = is_inclusive || !has_before ? inclusive : before;
            before = inclusive;
            has_before = true;
        }
    }

  public:
    struct TempStorage {
        softgpu_detail::room<T, WARPS> warps;
        softgpu_detail::room<T, 1> prefix;
    };

    BlockScan() : storage(softgpu_detail::own_storage<BlockScan, TempStorage>())
    {
    }
    explicit BlockScan(TempStorage &temp_storage) : storage(temp_storage)
    {
    }

    /* ---- one item for each thread ---- */

    template <class Operation> void InclusiveScan(T input, T &output, Operation operation)
    {
        output = scanned(input, operation).inclusive;
    }
    template <class Operation> void InclusiveScan(T input, T &output, Operation operation, T &block_aggregate)
    {
        const result mine = scanned(input, operation);
        output = mine.inclusive;
        block_aggregate = mine.total;
    }
    template <class Operation, class Callback>
    softgpu::only_if<!std::is_same<Callback, T>::value, void> InclusiveScan(T input, T &output, Operation operation,
                                                                            Callback &callback)
    {
        const result mine = scanned(input, operation);
        output = operation(asked_prefix(mine.total, callback), mine.inclusive);
    }

    template <class Operation> void ExclusiveScan(T input, T &output, Operation operation)
    {
        output = scanned(input, operation).before;
    }
    template <class Operation>
    softgpu::only_if<!std::is_same<Operation, T>::value, void> ExclusiveScan(T input, T &output, Operation operation,
                                                                             T &block_aggregate)
    {
        const result mine = scanned(input, operation);
        output = mine.before;
        block_aggregate = mine.total;
    }
    template <class Operation> void ExclusiveScan(T input, T &output, T initial, Operation operation)
    {
        const result mine = scanned(input, operation);
        output = mine.has_before ? operation(initial, mine.before) : initial;
    }
    /* The aggregate is of the items, without the first value. */
    template <class Operation>
    void ExclusiveScan(T input, T &output, T initial, Operation operation, T &block_aggregate)
    {
        const result mine = scanned(input, operation);
        output = mine.has_before ? operation(initial, mine.before) : initial;
        block_aggregate = mine.total;
    }
    template <class Operation, class Callback>
    softgpu::only_if<!std::is_convertible<Operation, T>::value && !std::is_same<Callback, T>::value, void>
    ExclusiveScan(T input, T &output, Operation operation, Callback &callback)
    {
        const result mine = scanned(input, operation);
        const T prefix = asked_prefix(mine.total, callback);
        output = mine.has_before ? operation(prefix, mine.before) : prefix;
    }

    /* ---- sums, of one item for each thread or of several; `more` is the aggregate or the functor for the prefix ----
     */

    template <class In, class Out, class... More> void InclusiveSum(In &&input, Out &output, More &...more)
    {
        InclusiveScan(input, output, cub::Sum(), more...);
    }
    template <class In, class Out> void ExclusiveSum(In &&input, Out &output)
    {
        ExclusiveScan(input, output, T(), cub::Sum());
    }
    template <class In, class Out> void ExclusiveSum(In &&input, Out &output, T &block_aggregate)
    {
        ExclusiveScan(input, output, T(), cub::Sum(), block_aggregate);
    }
    template <class In, class Out, class Callback>
    softgpu::only_if<!std::is_same<Callback, T>::value, void> ExclusiveSum(In &&input, Out &output, Callback &callback)
    {
        ExclusiveScan(input, output, cub::Sum(), callback);
    }

    /* ---- several items in a row for each thread ---- */

    template <int Items, class Operation> void InclusiveScan(T (&input)[Items], T (&output)[Items], Operation operation)
    {
        T ignored = input[0];
        InclusiveScan(input, output, operation, ignored);
    }
    template <int Items, class Operation>
    void InclusiveScan(T (&input)[Items], T (&output)[Items], Operation operation, T &block_aggregate)
    {
        const result mine = scanned(softgpu_detail::fold(input, operation), operation);
        spread(input, output, mine.has_before, mine.before, operation, true);
        block_aggregate = mine.total;
    }
    template <int Items, class Operation>
    void ExclusiveScan(T (&input)[Items], T (&output)[Items], T initial, Operation operation)
    {
        T ignored = input[0];
        ExclusiveScan(input, output, initial, operation, ignored);
    }
    template <int Items, class Operation>
    void ExclusiveScan(T (&input)[Items], T (&output)[Items], T initial, Operation operation, T &block_aggregate)
    {
        const result mine = scanned(softgpu_detail::fold(input, operation), operation);
        spread(input, output, true, mine.has_before ? operation(initial, mine.before) : initial, operation, false);
        block_aggregate = mine.total;
    }
    template <int Items, class Operation, class Callback>
    softgpu::only_if<!std::is_convertible<Operation, T>::value && !std::is_same<Callback, T>::value, void>
    ExclusiveScan(T (&input)[Items], T (&output)[Items], Operation operation, Callback &callback)
    {
        const result mine = scanned(softgpu_detail::fold(input, operation), operation);
        const T prefix = asked_prefix(mine.total, callback);
        spread(input, output, true, mine.has_before ? operation(prefix, mine.before) : prefix, operation, false);
    }

  private:
    TempStorage &storage;
};

} // namespace cub

#endif
