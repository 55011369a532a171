/*
 * cub/softgpu_device.cuh - what the device-wide algorithms of cub/ share. Each is one launch of a kernel of one thread
 * in the caller's stream (softgpu/run_function.h), so its result is the same in every run. Not for users.
 *
 * A call without temporary storage says how much is needed, which grows with the number of items, as CUB's does; the
 * other call refuses less. The kernel overwrites the storage: whatever else a program keeps there is lost here too.
 */
#ifndef SOFTGPU_CUB_DEVICE_H
#define SOFTGPU_CUB_DEVICE_H
#pragma GCC system_header

#include <cub/softgpu_refused.cuh>
#include <cub/thread/thread_operators.cuh>

#include "softgpu/run_function.h"

#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

namespace cub
{

namespace softgpu_detail
{

template <class It> using value_of = typename std::iterator_traits<It>::value_type;

/* Of an output; an iterator that has none takes what goes in. */
template <class Out, class In>
using value_for = typename std::conditional<std::is_void<value_of<Out>>::value, value_of<In>, value_of<Out>>::type;

/* What an operation makes of its first value and an input: the type in which intermediate results are kept. */
template <class Operation, class Initial, class Input>
using accumulator =
    typename std::decay<decltype(std::declval<Operation &>()(std::declval<Initial>(), std::declval<Input>()))>::type;

template <class N> using if_count = typename std::enable_if<std::is_integral<N>::value, int>::type;
template <class T> using if_iterator = typename std::enable_if<!std::is_arithmetic<T>::value, int>::type;

template <class It>
inline auto
in_kernel(const It &it) -> decltype(softgpu::kernel_iterator<It>::of(it))
{
    return softgpu::kernel_iterator<It>::of(it);
}

/* The largest and the least finite value. Types of 16 bits with a fraction have no numeric_limits. */
template <class T, typename std::enable_if<std::numeric_limits<T>::is_specialized || sizeof(T) != 2, int>::type = 0>
inline T
largest()
{
    return std::numeric_limits<T>::max();
}
template <class T, typename std::enable_if<!std::numeric_limits<T>::is_specialized && sizeof(T) == 2, int>::type = 0>
inline T
largest()
{
    const unsigned short half = 0x7bff, bfloat = 0x7f7f;
    const bool is_half = static_cast<float>(static_cast<T>(1e30f)) > 2e30f;
    T value;
    std::memcpy(static_cast<void *>(&value), is_half ? &half : &bfloat, sizeof(value));
    return value;
}
template <class T>
inline T
least()
{
    return std::numeric_limits<T>::is_specialized ? std::numeric_limits<T>::lowest() : static_cast<T>(-largest<T>());
}

/* An algorithm's two phases; run(count) does its work. */
template <class N, class F>
inline cudaError_t
two_phases(void *storage, size_t &storage_bytes, N items, cudaStream_t stream, F run)
{
    const size_t count = items > 0 ? static_cast<size_t>(items) : 0, needed = 256 + count / 16;
    if (storage == nullptr) {
        storage_bytes = needed;
        return cudaSuccess;
    }
    if (storage_bytes < needed)
        return cudaErrorInvalidValue;
    softgpu::launch_function(stream, [=]() mutable {
        std::memset(storage, 0xff, needed);
        run(static_cast<ptrdiff_t>(count));
    });
    return cudaPeekAtLastError();
}

/* For each run of equal keys that has `least` items or more: of(keys, begin, end) to `firsts`, reduce(begin, end) to
 * `seconds`; how many these are to `number`. */
template <class Keys, class Firsts, class Seconds, class Number, class N, class F, class G>
inline cudaError_t
runs_of(void *storage, size_t &storage_bytes, Keys keys, Firsts firsts, Seconds seconds, Number number, N count,
        cudaStream_t stream, ptrdiff_t least, F of, G reduce)
{
    auto key = in_kernel(keys);
    auto first = in_kernel(firsts);
    auto second = in_kernel(seconds);
    auto total = in_kernel(number);
    return two_phases(storage, storage_bytes, count, stream, [=](ptrdiff_t n) mutable {
        ptrdiff_t runs = 0;
        for (ptrdiff_t begin = 0, end = 0; begin < n; begin = end) {
            while (end < n && key[begin] == key[end])
                ++end;
            if (end - begin >= least) {
                first[runs] = static_cast<value_for<Firsts, Keys>>(of(key, begin, end));
                second[runs++] = static_cast<value_for<Seconds, int *>>(reduce(begin, end));
            }
        }
        total[0] = static_cast<value_for<Number, int *>>(runs);
    });
}

} // namespace softgpu_detail

} // namespace cub

#endif
