/*
 * cub/device/device_radix_sort.cuh - in the place of NVIDIA's: cub::DeviceRadixSort. CUB documentation, "Device-wide
 * primitives". Keys are numbers of up to 64 bits, half and bfloat16 among them; there are no decomposers. Sorts are
 * stable; +0 and -0 are equal, NaNs go by their bits.
 */
#ifndef SOFTGPU_CUB_DEVICE_RADIX_SORT_H
#define SOFTGPU_CUB_DEVICE_RADIX_SORT_H
#pragma GCC system_header

#include <cub/softgpu_collective.cuh>
#include <cub/softgpu_device.cuh>
#include <cub/util_type.cuh>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cub
{

namespace softgpu_detail
{

/* A key as an unsigned number with the same order. */
template <class K>
inline uint64_t
radix_of(const K &key)
{
    static_assert(sizeof(K) <= 8 && (std::is_arithmetic<K>::value || (std::is_class<K>::value && sizeof(K) == 2)),
                  "softgpu-cc supports keys of cub::DeviceRadixSort that are numbers of up to 64 bits; sort others by "
                  "thrust::sort");
    const uint64_t sign = 1ull << (8 * sizeof(K) - 1), all = sign | (sign - 1);
    uint64_t bits = 0;
    std::memcpy(&bits, &key, sizeof(K));
    if (std::is_integral<K>::value)
        return std::is_signed<K>::value ? bits ^ sign : bits;
    if (bits == sign)
        bits = 0;
    return (bits & sign) != 0 ? ~bits & all : bits | sign;
}

/* Digits, and where in the input they stand. */
typedef std::vector<std::pair<uint64_t, ptrdiff_t>> radix_order;

__attribute__((noinline)) inline void
sort_order(radix_order &order)
{
    std::sort(order.begin(), order.end());
}

template <class K, class V>
inline void
radix_sort(const K *keys, K *to_keys, const V *values, V *to_values, ptrdiff_t count, int begin_bit, int end_bit,
           bool descending)
{
    const int width = end_bit - begin_bit;
    const uint64_t mask = width >= 64 ? ~0ull : width <= 0 ? 0 : (1ull << width) - 1;
    radix_order order(static_cast<size_t>(count));
    for (ptrdiff_t i = 0; i < count; ++i) {
        const uint64_t digits = mask == 0 ? 0 : radix_of(keys[i]) >> begin_bit & mask;
        order[static_cast<size_t>(i)] = {descending ? ~digits : digits, i};
    }
    sort_order(order);
    for (ptrdiff_t i = 0; i < count; ++i) {
        const ptrdiff_t from = order[static_cast<size_t>(i)].second;
        to_keys[i] = keys[from];
        if (!std::is_same<V, NullType>::value)
            to_values[i] = values[from];
    }
}

template <class K, class V, class N>
inline cudaError_t
sort_device(void *storage, size_t &storage_bytes, const K *keys, K *to_keys, const V *values, V *to_values, N count,
            int begin_bit, int end_bit, cudaStream_t stream, bool descending)
{
    return two_phases(storage, storage_bytes, count, stream, [=](ptrdiff_t n) {
        radix_sort(keys, to_keys, values, to_values, n, begin_bit, end_bit, descending);
    });
}

} // namespace softgpu_detail

struct DeviceRadixSort {
    /* Between two buffers the result is in the one that was not current; the selector says so. */
#define SOFTGPU_SORTS(suffix, descending)                                                                              \
    template <class K, class V, class N>                                                                               \
    static cudaError_t SortPairs##suffix(void *storage, size_t &storage_bytes, const K *keys_in, K *keys_out,          \
                                         const V *values_in, V *values_out, N count, int begin_bit = 0,                \
                                         int end_bit = sizeof(K) * 8, cudaStream_t stream = nullptr)                   \
    {                                                                                                                  \
        return softgpu_detail::sort_device(storage, storage_bytes, keys_in, keys_out, values_in, values_out, count,    \
                                           begin_bit, end_bit, stream, descending);                                    \
    }                                                                                                                  \
    template <class K, class V, class N>                                                                               \
    static cudaError_t SortPairs##suffix(void *storage, size_t &storage_bytes, DoubleBuffer<K> &keys,                  \
                                         DoubleBuffer<V> &values, N count, int begin_bit = 0,                          \
                                         int end_bit = sizeof(K) * 8, cudaStream_t stream = nullptr)                   \
    {                                                                                                                  \
        const cudaError_t error =                                                                                      \
            SortPairs##suffix(storage, storage_bytes, keys.Current(), keys.Alternate(), values.Current(),              \
                              values.Alternate(), count, begin_bit, end_bit, stream);                                  \
        if (storage != nullptr && error == cudaSuccess) {                                                              \
            keys.selector ^= 1;                                                                                        \
            values.selector ^= 1;                                                                                      \
        }                                                                                                              \
        return error;                                                                                                  \
    }                                                                                                                  \
    template <class K, class N>                                                                                        \
    static cudaError_t SortKeys##suffix(void *storage, size_t &storage_bytes, const K *keys_in, K *keys_out, N count,  \
                                        int begin_bit = 0, int end_bit = sizeof(K) * 8, cudaStream_t stream = nullptr) \
    {                                                                                                                  \
        NullType *const none = nullptr;                                                                                \
        return SortPairs##suffix(storage, storage_bytes, keys_in, keys_out, none, none, count, begin_bit, end_bit,     \
                                 stream);                                                                              \
    }                                                                                                                  \
    template <class K, class N>                                                                                        \
    static cudaError_t SortKeys##suffix(void *storage, size_t &storage_bytes, DoubleBuffer<K> &keys, N count,          \
                                        int begin_bit = 0, int end_bit = sizeof(K) * 8, cudaStream_t stream = nullptr) \
    {                                                                                                                  \
        DoubleBuffer<NullType> none;                                                                                   \
        return SortPairs##suffix(storage, storage_bytes, keys, none, count, begin_bit, end_bit, stream);               \
    }
    SOFTGPU_SORTS(, false)
    SOFTGPU_SORTS(Descending, true)
#undef SOFTGPU_SORTS
};

} // namespace cub

#endif
