/*
 * cub/softgpu_iterator.cuh - CUB's iterators; those that CUDA 13 no longer has, with --allow-removed. Headers of CUB's
 * names include it.
 */
#ifndef SOFTGPU_CUB_ITERATOR_H
#define SOFTGPU_CUB_ITERATOR_H
#pragma GCC system_header

#include <cub/softgpu_device.cuh>
#include <softgpu/iterator.h>

namespace cub
{

/* An item with its index. */
template <class In, class Offset = ptrdiff_t, class T = softgpu_detail::value_of<In>>
class ArgIndexInputIterator
    : public softgpu::indexed_iterator<ArgIndexInputIterator<In, Offset, T>, KeyValuePair<Offset, T>>
{
    decltype(softgpu_detail::in_kernel(std::declval<In>())) items;

  public:
    ArgIndexInputIterator(In in) : items(softgpu_detail::in_kernel(in))
    {
    }
    KeyValuePair<Offset, T> get(ptrdiff_t i) const
    {
        return KeyValuePair<Offset, T>(static_cast<Offset>(i), static_cast<T>(items[i]));
    }
};

#ifdef SOFTGPU_ALLOW_REMOVED
#define SOFTGPU_REMOVED_FROM_CUB(T, name, other)
#else
#define SOFTGPU_REMOVED_FROM_CUB(T, name, other)                                                                       \
    static_assert(softgpu_detail::never<T>::value, "CUDA 13 has no cub::" name ": use thrust::" other "_iterator, or " \
                                                   "compile with --allow-removed");
#endif

template <class T, class Offset = ptrdiff_t>
class CountingInputIterator : public softgpu::indexed_iterator<CountingInputIterator<T, Offset>, T>
{
    SOFTGPU_REMOVED_FROM_CUB(T, "CountingInputIterator", "counting")
    T first;

  public:
    CountingInputIterator(const T &value) : first(value)
    {
    }
    T get(ptrdiff_t i) const
    {
        return static_cast<T>(first + static_cast<T>(i));
    }
};

template <class T, class Operation, class In, class Offset = ptrdiff_t>
class TransformInputIterator : public softgpu::indexed_iterator<TransformInputIterator<T, Operation, In, Offset>, T>
{
    SOFTGPU_REMOVED_FROM_CUB(T, "TransformInputIterator", "transform")
    decltype(softgpu_detail::in_kernel(std::declval<In>())) items;
    Operation operation;

  public:
    TransformInputIterator(In in, Operation f) : items(softgpu_detail::in_kernel(in)), operation(f)
    {
    }
    T get(ptrdiff_t i) const
    {
        return static_cast<T>(operation(items[i]));
    }
};

/* What is written there is dropped. */
template <class Offset = ptrdiff_t>
class DiscardOutputIterator
    : public softgpu::indexed_iterator<DiscardOutputIterator<Offset>, DiscardOutputIterator<Offset>>
{
    SOFTGPU_REMOVED_FROM_CUB(Offset, "DiscardOutputIterator", "discard")

  public:
    DiscardOutputIterator(Offset = 0)
    {
    }
    template <class T> const DiscardOutputIterator &operator=(const T &) const
    {
        return *this;
    }
    DiscardOutputIterator get(ptrdiff_t) const
    {
        return *this;
    }
};

#undef SOFTGPU_REMOVED_FROM_CUB

} // namespace cub

#endif
