/*
 * cub/device/device_run_length_encode.cuh - in the place of NVIDIA's: cub::DeviceRunLengthEncode. CUB documentation,
 * "Device-wide primitives". A run is a row of equal items; a trivial one has one item.
 */
#ifndef SOFTGPU_CUB_DEVICE_RUN_LENGTH_ENCODE_H
#define SOFTGPU_CUB_DEVICE_RUN_LENGTH_ENCODE_H
#pragma GCC system_header

#include <cub/softgpu_device.cuh>

#include <cstdint>

namespace cub
{

struct DeviceRunLengthEncode {
    template <class In, class Unique, class Lengths, class Number>
    static cudaError_t Encode(void *storage, size_t &storage_bytes, In in, Unique unique, Lengths lengths, Number runs,
                              int64_t count, cudaStream_t stream = nullptr)
    {
        return softgpu_detail::runs_of(
            storage, storage_bytes, in, unique, lengths, runs, count, stream, 1,
            [](decltype(softgpu_detail::in_kernel(in)) &from, ptrdiff_t begin, ptrdiff_t) { return from[begin]; },
            [](ptrdiff_t begin, ptrdiff_t end) { return end - begin; });
    }

    template <class In, class Offsets, class Lengths, class Number>
    static cudaError_t NonTrivialRuns(void *storage, size_t &storage_bytes, In in, Offsets offsets, Lengths lengths,
                                      Number runs, int64_t count, cudaStream_t stream = nullptr)
    {
        return softgpu_detail::runs_of(
            storage, storage_bytes, in, offsets, lengths, runs, count, stream, 2,
            [](decltype(softgpu_detail::in_kernel(in)) &, ptrdiff_t begin, ptrdiff_t) { return begin; },
            [](ptrdiff_t begin, ptrdiff_t end) { return end - begin; });
    }
};

} // namespace cub

#endif
