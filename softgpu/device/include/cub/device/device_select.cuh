/*
 * cub/device/device_select.cuh - in the place of NVIDIA's: cub::DeviceSelect. CUB documentation, "Device-wide
 * primitives". What is selected keeps its order.
 */
#ifndef SOFTGPU_CUB_DEVICE_SELECT_H
#define SOFTGPU_CUB_DEVICE_SELECT_H
#pragma GCC system_header

#include <cub/softgpu_device.cuh>

#include <cstdint>

namespace cub
{

struct DeviceSelect : softgpu_detail::refused_select {
    template <class In, class Flags, class Out, class Number, softgpu_detail::if_iterator<Number> = 0>
    static cudaError_t Flagged(void *storage, size_t &storage_bytes, In in, Flags flags, Out out, Number selected,
                               int64_t count, cudaStream_t stream = nullptr)
    {
        auto flag = softgpu_detail::in_kernel(flags);
        return select(storage, storage_bytes, in, out, selected, count, stream,
                      [=](decltype(softgpu_detail::in_kernel(in)) &, ptrdiff_t i) { return flag[i]; });
    }
    template <class It, class Flags, class Number>
    static cudaError_t Flagged(void *storage, size_t &storage_bytes, It data, Flags flags, Number selected,
                               int64_t count, cudaStream_t stream = nullptr)
    {
        return Flagged(storage, storage_bytes, data, flags, data, selected, count, stream);
    }

    template <class In, class Out, class Number, class Operation, softgpu_detail::if_iterator<Number> = 0>
    static cudaError_t If(void *storage, size_t &storage_bytes, In in, Out out, Number selected, int64_t count,
                          Operation operation, cudaStream_t stream = nullptr)
    {
        typedef softgpu_detail::value_of<In> item;
        return select(storage, storage_bytes, in, out, selected, count, stream,
                      [=](decltype(softgpu_detail::in_kernel(in)) &from, ptrdiff_t i) mutable {
                          return operation(static_cast<item>(from[i]));
                      });
    }
    template <class It, class Number, class Operation, softgpu_detail::if_iterator<Operation> = 0>
    static cudaError_t If(void *storage, size_t &storage_bytes, It data, Number selected, int64_t count,
                          Operation operation, cudaStream_t stream = nullptr)
    {
        return If(storage, storage_bytes, data, data, selected, count, operation, stream);
    }

    template <class In, class Out, class Number>
    static cudaError_t Unique(void *storage, size_t &storage_bytes, In in, Out out, Number selected, int64_t count,
                              cudaStream_t stream = nullptr)
    {
        return select(storage, storage_bytes, in, out, selected, count, stream,
                      [=](decltype(softgpu_detail::in_kernel(in)) &from, ptrdiff_t i) {
                          return i == 0 || !(from[i - 1] == from[i]);
                      });
    }

  private:
    template <class In, class Out, class Number, class Test>
    static cudaError_t select(void *storage, size_t &storage_bytes, In in, Out out, Number selected, int64_t count,
                              cudaStream_t stream, Test test)
    {
        typedef softgpu_detail::value_of<In> item;
        auto from = softgpu_detail::in_kernel(in);
        auto to = softgpu_detail::in_kernel(out);
        auto number = softgpu_detail::in_kernel(selected);
        return softgpu_detail::two_phases(storage, storage_bytes, count, stream, [=](ptrdiff_t n) mutable {
            ptrdiff_t kept = 0;
            for (ptrdiff_t i = 0; i < n; ++i)
                if (test(from, i))
                    to[kept++] = static_cast<item>(from[i]);
            number[0] = static_cast<softgpu_detail::value_for<Number, int *>>(kept);
        });
    }
};

} // namespace cub

#endif
