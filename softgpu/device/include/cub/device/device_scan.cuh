/*
 * cub/device/device_scan.cuh - in the place of NVIDIA's: cub::DeviceScan. CUB documentation, "Device-wide primitives".
 * Each form also exists with one sequence, which is input and output.
 */
#ifndef SOFTGPU_CUB_DEVICE_SCAN_H
#define SOFTGPU_CUB_DEVICE_SCAN_H
#pragma GCC system_header

#include <cub/softgpu_device.cuh>

namespace cub
{

struct DeviceScan : softgpu_detail::refused_scan {
    template <class In, class Out, class Operation, class T, class N, softgpu_detail::if_count<N> = 0,
              softgpu_detail::if_iterator<Operation> = 0>
    static cudaError_t ExclusiveScan(void *storage, size_t &storage_bytes, In in, Out out, Operation operation,
                                     T initial, N count, cudaStream_t stream = nullptr)
    {
        return scan<false>(storage, storage_bytes, in, out, operation, initial, count, stream);
    }
    template <class It, class Operation, class T, class N, softgpu_detail::if_count<N> = 0>
    static cudaError_t ExclusiveScan(void *storage, size_t &storage_bytes, It data, Operation operation, T initial,
                                     N count, cudaStream_t stream = nullptr)
    {
        return scan<false>(storage, storage_bytes, data, data, operation, initial, count, stream);
    }
    template <class In, class Out, class N, softgpu_detail::if_count<N> = 0, softgpu_detail::if_iterator<Out> = 0>
    static cudaError_t ExclusiveSum(void *storage, size_t &storage_bytes, In in, Out out, N count,
                                    cudaStream_t stream = nullptr)
    {
        return scan<false>(storage, storage_bytes, in, out, cub::Sum(), softgpu_detail::value_of<In>(), count, stream);
    }
    template <class It, class N, softgpu_detail::if_count<N> = 0>
    static cudaError_t ExclusiveSum(void *storage, size_t &storage_bytes, It data, N count,
                                    cudaStream_t stream = nullptr)
    {
        return ExclusiveSum(storage, storage_bytes, data, data, count, stream);
    }

    template <class In, class Out, class Operation, class T, class N>
    static cudaError_t InclusiveScanInit(void *storage, size_t &storage_bytes, In in, Out out, Operation operation,
                                         T initial, N count, cudaStream_t stream = nullptr)
    {
        return scan<true>(storage, storage_bytes, in, out, operation, initial, count, stream);
    }
    template <class In, class Out, class Operation, class N, softgpu_detail::if_count<N> = 0,
              softgpu_detail::if_iterator<Operation> = 0>
    static cudaError_t InclusiveScan(void *storage, size_t &storage_bytes, In in, Out out, Operation operation, N count,
                                     cudaStream_t stream = nullptr)
    {
        typedef softgpu_detail::value_of<In> item;
        typedef softgpu_detail::accumulator<Operation, item, item> total;
        auto from = softgpu_detail::in_kernel(in);
        auto to = softgpu_detail::in_kernel(out);
        return softgpu_detail::two_phases(storage, storage_bytes, count, stream, [=](ptrdiff_t n) mutable {
            if (n == 0)
                return;
            total sum = static_cast<item>(from[0]);
            to[0] = sum;
            for (ptrdiff_t i = 1; i < n; ++i)
                to[i] = sum = operation(sum, static_cast<item>(from[i]));
        });
    }
    template <class It, class Operation, class N, softgpu_detail::if_count<N> = 0>
    static cudaError_t InclusiveScan(void *storage, size_t &storage_bytes, It data, Operation operation, N count,
                                     cudaStream_t stream = nullptr)
    {
        return InclusiveScan(storage, storage_bytes, data, data, operation, count, stream);
    }
    template <class In, class Out, class N, softgpu_detail::if_count<N> = 0, softgpu_detail::if_iterator<Out> = 0>
    static cudaError_t InclusiveSum(void *storage, size_t &storage_bytes, In in, Out out, N count,
                                    cudaStream_t stream = nullptr)
    {
        return InclusiveScan(storage, storage_bytes, in, out, cub::Sum(), count, stream);
    }
    template <class It, class N, softgpu_detail::if_count<N> = 0>
    static cudaError_t InclusiveSum(void *storage, size_t &storage_bytes, It data, N count,
                                    cudaStream_t stream = nullptr)
    {
        return InclusiveScan(storage, storage_bytes, data, data, cub::Sum(), count, stream);
    }

  private:
    template <bool Inclusive, class In, class Out, class Operation, class T, class N>
    static cudaError_t scan(void *storage, size_t &storage_bytes, In in, Out out, Operation operation, T initial,
                            N count, cudaStream_t stream)
    {
        typedef softgpu_detail::value_of<In> item;
        typedef softgpu_detail::accumulator<Operation, T, item> total;
        auto from = softgpu_detail::in_kernel(in);
        auto to = softgpu_detail::in_kernel(out);
        return softgpu_detail::two_phases(storage, storage_bytes, count, stream, [=](ptrdiff_t n) mutable {
            total sum = static_cast<total>(initial);
            for (ptrdiff_t i = 0; i < n; ++i) {
                const total next = operation(sum, static_cast<item>(from[i]));
                to[i] = Inclusive ? next : sum;
                sum = next;
            }
        });
    }
};

} // namespace cub

#endif
