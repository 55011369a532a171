/*
 * cub/device/device_histogram.cuh - in the place of NVIDIA's: cub::DeviceHistogram of one row and one channel. CUB
 * documentation, "Device-wide primitives". Samples outside of all bins count in none.
 */
#ifndef SOFTGPU_CUB_DEVICE_HISTOGRAM_H
#define SOFTGPU_CUB_DEVICE_HISTOGRAM_H
#pragma GCC system_header

#include <cub/softgpu_device.cuh>

#include <algorithm>

namespace cub
{

class DeviceHistogram
{
    /* bin(sample) is below 0, or beyond the last, for a sample of no bin. */
    template <class In, class Counter, class N, class Bin>
    static cudaError_t histogram(void *storage, size_t &storage_bytes, In in, Counter *counts, int levels, N count,
                                 cudaStream_t stream, Bin bin)
    {
        auto from = softgpu_detail::in_kernel(in);
        return softgpu_detail::two_phases(storage, storage_bytes, count, stream, [=](ptrdiff_t n) mutable {
            std::fill(counts, counts + levels - 1, Counter());
            for (ptrdiff_t i = 0; i < n; ++i) {
                const int at = bin(static_cast<softgpu_detail::value_of<In>>(from[i]));
                if (at >= 0 && at < levels - 1)
                    ++counts[at];
            }
        });
    }

  public:
    template <class In, class Counter, class Level, class N>
    static cudaError_t HistogramEven(void *storage, size_t &storage_bytes, In in, Counter *counts, int levels,
                                     Level lower, Level upper, N count, cudaStream_t stream = nullptr)
    {
        typedef typename std::common_type<Level, softgpu_detail::value_of<In>>::type number;
        typedef typename std::conditional<std::is_integral<number>::value, __int128, number>::type wide;
        const wide least = static_cast<wide>(lower), range = static_cast<wide>(upper) - least;
        return histogram(storage, storage_bytes, in, counts, levels, count, stream, [=](number sample) {
            const wide above = static_cast<wide>(sample) - least, bins = levels - 1;
            if (!(above >= 0 && above < range))
                return -1;
            return static_cast<int>(std::is_integral<number>::value ? above * bins / range : above * (bins / range));
        });
    }
    template <class In, class Counter, class Level, class N>
    static cudaError_t HistogramRange(void *storage, size_t &storage_bytes, In in, Counter *counts, int levels,
                                      const Level *bounds, N count, cudaStream_t stream = nullptr)
    {
        typedef typename std::common_type<Level, softgpu_detail::value_of<In>>::type number;
        return histogram(storage, storage_bytes, in, counts, levels, count, stream, [=](number sample) {
            const ptrdiff_t at = std::upper_bound(bounds, bounds + levels, sample) - bounds;
            return at < levels ? static_cast<int>(at) - 1 : -1;
        });
    }
};

} // namespace cub

#endif
