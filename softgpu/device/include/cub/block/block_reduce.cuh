/*
 * cub/block/block_reduce.cuh - in the place of NVIDIA's: cub::BlockReduce. CUB documentation, "Block-wide collectives".
 *
 * All algorithms are one here: warps first, then the first thread combines their results in order, after one barrier.
 * That thread gets the result; the others get back what they brought, so that a kernel which takes their value for the
 * result is wrong here too. As with CUB, a barrier of the user's must stand before the storage is used again.
 */
#ifndef SOFTGPU_CUB_BLOCK_REDUCE_H
#define SOFTGPU_CUB_BLOCK_REDUCE_H
#pragma GCC system_header

#include <cub/softgpu_collective.cuh>
#include <cub/thread/thread_operators.cuh>

namespace cub
{

enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
    BLOCK_REDUCE_RAKING,
    BLOCK_REDUCE_WARP_REDUCTIONS,
};

template <class T, int BlockDimX, BlockReduceAlgorithm Algorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int BlockDimY = 1,
          int BlockDimZ = 1, int LegacyArchitecture = 0>
class BlockReduce
{
    enum { THREADS = BlockDimX * BlockDimY * BlockDimZ };

  public:
    typedef softgpu_detail::room<T, softgpu_detail::warps_in<THREADS>::count> TempStorage;

    BlockReduce() : storage(softgpu_detail::own_storage<BlockReduce, TempStorage>())
    {
    }
    explicit BlockReduce(TempStorage &temp_storage) : storage(temp_storage)
    {
    }

    template <class Operation> T Reduce(T input, Operation operation)
    {
        return Reduce(input, operation, THREADS);
    }
    template <int Items, class Operation> T Reduce(T (&inputs)[Items], Operation operation)
    {
        return Reduce(softgpu_detail::fold(inputs, operation), operation);
    }
    /* Of the first `num_valid` threads, at least one. */
    template <class Operation> T Reduce(T input, Operation operation, int num_valid)
    {
        softgpu_detail::check_block<BlockDimX, BlockDimY, BlockDimZ>("cub::BlockReduce");
        const int thread = static_cast<int>(::softgpu::self().number);
        softgpu_detail::slot<T> mine(input, thread < num_valid);
        softgpu_detail::warp_scan<32>("cub::BlockReduce", &mine, &operation);
        if (thread % 32 == 0)
            storage.set(static_cast<unsigned>(thread) / 32, mine.total);
        __syncthreads();
        if (thread != 0)
            return input;
        T total = storage.at(0);
        for (int first = 32; first < THREADS && first < num_valid; first += 32)
            total = operation(total, storage.at(static_cast<unsigned>(first) / 32));
        return total;
    }

    T Sum(T input)
    {
        return Reduce(input, cub::Sum());
    }
    template <int Items> T Sum(T (&inputs)[Items])
    {
        return Reduce(inputs, cub::Sum());
    }
    T Sum(T input, int num_valid)
    {
        return Reduce(input, cub::Sum(), num_valid);
    }

  private:
    TempStorage &storage;
};

} // namespace cub

#endif
