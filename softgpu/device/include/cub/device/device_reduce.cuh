/*
 * cub/device/device_reduce.cuh - in the place of NVIDIA's: cub::DeviceReduce. CUB documentation, "Device-wide
 * primitives". Sums are taken from the first item to the last.
 */
#ifndef SOFTGPU_CUB_DEVICE_REDUCE_H
#define SOFTGPU_CUB_DEVICE_REDUCE_H
#pragma GCC system_header

#include <cub/softgpu_device.cuh>

#include <cstdint>

namespace cub
{

struct DeviceReduce {
    template <class In, class Out, class N, class Operation, class Transform, class T>
    static cudaError_t TransformReduce(void *storage, size_t &storage_bytes, In in, Out out, N count,
                                       Operation operation, Transform transform, T initial,
                                       cudaStream_t stream = nullptr)
    {
        typedef softgpu_detail::value_of<In> item;
        typedef softgpu_detail::accumulator<Operation, T, decltype(transform(std::declval<item>()))> total;
        auto from = softgpu_detail::in_kernel(in);
        auto to = softgpu_detail::in_kernel(out);
        return softgpu_detail::two_phases(storage, storage_bytes, count, stream, [=](ptrdiff_t n) mutable {
            total sum = static_cast<total>(initial);
            for (ptrdiff_t i = 0; i < n; ++i)
                sum = operation(sum, transform(static_cast<item>(from[i])));
            to[0] = sum;
        });
    }
    template <class In, class Out, class Operation, class T, class N, softgpu_detail::if_count<N> = 0>
    static cudaError_t Reduce(void *storage, size_t &storage_bytes, In in, Out out, N count, Operation operation,
                              T initial, cudaStream_t stream = nullptr)
    {
        const auto itself = [](const softgpu_detail::value_of<In> &item) { return item; };
        return TransformReduce(storage, storage_bytes, in, out, count, operation, itself, initial, stream);
    }
    template <class Keys, class Unique, class In, class Out, class Number, class Operation, class N>
    static cudaError_t ReduceByKey(void *storage, size_t &storage_bytes, Keys keys, Unique unique, In in, Out out,
                                   Number runs, Operation operation, N count, cudaStream_t stream = nullptr)
    {
        typedef softgpu_detail::value_of<In> item;
        auto from = softgpu_detail::in_kernel(in);
        return softgpu_detail::runs_of(
            storage, storage_bytes, keys, unique, out, runs, count, stream, 1,
            [](decltype(softgpu_detail::in_kernel(keys)) &key, ptrdiff_t begin, ptrdiff_t) { return key[begin]; },
            [=](ptrdiff_t begin, ptrdiff_t end) mutable {
                softgpu_detail::accumulator<Operation, item, item> sum = static_cast<item>(from[begin]);
                for (ptrdiff_t i = begin + 1; i < end; ++i)
                    sum = operation(sum, static_cast<item>(from[i]));
                return sum;
            });
    }

    template <class In, class Out, class N>
    static cudaError_t Sum(void *storage, size_t &storage_bytes, In in, Out out, N count, cudaStream_t stream = nullptr)
    {
        return Reduce(storage, storage_bytes, in, out, count, cub::Sum(), softgpu_detail::value_for<Out, In>(), stream);
    }
    template <class In, class Out, class N>
    static cudaError_t Min(void *storage, size_t &storage_bytes, In in, Out out, N count, cudaStream_t stream = nullptr)
    {
        typedef softgpu_detail::value_of<In> item;
        return Reduce(storage, storage_bytes, in, out, count, cub::Min(), softgpu_detail::largest<item>(), stream);
    }
    template <class In, class Out, class N>
    static cudaError_t Max(void *storage, size_t &storage_bytes, In in, Out out, N count, cudaStream_t stream = nullptr)
    {
        typedef softgpu_detail::value_of<In> item;
        return Reduce(storage, storage_bytes, in, out, count, cub::Max(), softgpu_detail::least<item>(), stream);
    }

    /* Value and index in two places, */
    template <class In, class Out, class Index, softgpu_detail::if_iterator<Index> = 0>
    static cudaError_t ArgMin(void *storage, size_t &storage_bytes, In in, Out out, Index index, int64_t count,
                              cudaStream_t stream = nullptr)
    {
        return find(storage, storage_bytes, in, out, index, count, stream, cub::ArgMin(),
                    softgpu_detail::largest<softgpu_detail::value_of<In>>());
    }
    template <class In, class Out, class Index, softgpu_detail::if_iterator<Index> = 0>
    static cudaError_t ArgMax(void *storage, size_t &storage_bytes, In in, Out out, Index index, int64_t count,
                              cudaStream_t stream = nullptr)
    {
        return find(storage, storage_bytes, in, out, index, count, stream, cub::ArgMax(),
                    softgpu_detail::least<softgpu_detail::value_of<In>>());
    }
    /* or, as before, as a KeyValuePair. */
    template <class In, class Out>
    static cudaError_t ArgMin(void *storage, size_t &storage_bytes, In in, Out out, int count,
                              cudaStream_t stream = nullptr)
    {
        return find(storage, storage_bytes, in, out, nullptr, count, stream, cub::ArgMin(),
                    softgpu_detail::largest<softgpu_detail::value_of<In>>());
    }
    template <class In, class Out>
    static cudaError_t ArgMax(void *storage, size_t &storage_bytes, In in, Out out, int count,
                              cudaStream_t stream = nullptr)
    {
        return find(storage, storage_bytes, in, out, nullptr, count, stream, cub::ArgMax(),
                    softgpu_detail::least<softgpu_detail::value_of<In>>());
    }

  private:
    template <class Out, class Index, class Pair> static void write(Out &out, Index &index, const Pair &found)
    {
        out[0] = found.value;
        index[0] = static_cast<softgpu_detail::value_of<Index>>(found.key);
    }
    template <class Out, class Pair> static void write(Out &out, std::nullptr_t &, const Pair &found)
    {
        typedef softgpu_detail::value_for<Out, KeyValuePair<int, typename Pair::Value> *> pair;
        out[0] = pair(static_cast<typename pair::Key>(found.key), found.value);
    }

    template <class In, class Out, class Index, class N, class Operation>
    static cudaError_t find(void *storage, size_t &storage_bytes, In in, Out out, Index index, N count,
                            cudaStream_t stream, Operation operation, softgpu_detail::value_of<In> none)
    {
        typedef KeyValuePair<int64_t, softgpu_detail::value_of<In>> pair;
        auto from = softgpu_detail::in_kernel(in);
        auto to = softgpu_detail::in_kernel(out);
        auto to_index = softgpu_detail::in_kernel(index);
        return softgpu_detail::two_phases(storage, storage_bytes, count, stream, [=](ptrdiff_t n) mutable {
            pair found = n > 0 ? pair(0, from[0]) : pair(1, none);
            for (ptrdiff_t i = 1; i < n; ++i)
                found = operation(found, pair(i, from[i]));
            write(to, to_index, found);
        });
    }
};

} // namespace cub

#endif
