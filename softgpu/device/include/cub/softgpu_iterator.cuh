/*
 * cub/softgpu_iterator.cuh - CUB's iterators; those that CUDA 13 no longer has, with --allow-removed. Headers of CUB's
 * names include it.
 */
#ifndef SOFTGPU_CUB_ITERATOR_H
#define SOFTGPU_CUB_ITERATOR_H
#pragma GCC system_header

#include <cub/softgpu_device.cuh>

namespace cub
{

namespace softgpu_detail
{

/* What they share: random access over something that has get(index). */
template <class Self, class T> struct input_iterator {
    typedef std::random_access_iterator_tag iterator_category;
    typedef T value_type;
    typedef T reference;
    typedef T *pointer;
    typedef ptrdiff_t difference_type;

    ptrdiff_t at = 0;

    T operator*() const
    {
        return self().get(at);
    }
    T operator[](ptrdiff_t n) const
    {
        return self().get(at + n);
    }
    Self &operator+=(ptrdiff_t n)
    {
        at += n;
        return static_cast<Self &>(*this);
    }
    Self &operator-=(ptrdiff_t n)
    {
        return *this += -n;
    }
    Self &operator++()
    {
        return *this += 1;
    }
    Self operator++(int)
    {
        const Self old = self();
        *this += 1;
        return old;
    }
    friend Self operator+(Self it, ptrdiff_t n)
    {
        return it += n;
    }
    friend Self operator-(Self it, ptrdiff_t n)
    {
        return it += -n;
    }
    friend ptrdiff_t operator-(const Self &a, const Self &b)
    {
        return a.at - b.at;
    }
    friend bool operator==(const Self &a, const Self &b)
    {
        return a.at == b.at;
    }
    friend bool operator!=(const Self &a, const Self &b)
    {
        return a.at != b.at;
    }

  private:
    const Self &self() const
    {
        return static_cast<const Self &>(*this);
    }
};

} // namespace softgpu_detail

/* An item with its index. */
template <class In, class Offset = ptrdiff_t, class T = softgpu_detail::value_of<In>>
class ArgIndexInputIterator
    : public softgpu_detail::input_iterator<ArgIndexInputIterator<In, Offset, T>, KeyValuePair<Offset, T>>
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
class CountingInputIterator : public softgpu_detail::input_iterator<CountingInputIterator<T, Offset>, T>
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
class TransformInputIterator
    : public softgpu_detail::input_iterator<TransformInputIterator<T, Operation, In, Offset>, T>
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
template <class Offset = ptrdiff_t> class DiscardOutputIterator
{
    SOFTGPU_REMOVED_FROM_CUB(Offset, "DiscardOutputIterator", "discard")

  public:
    typedef std::random_access_iterator_tag iterator_category;
    typedef void value_type;
    typedef Offset difference_type;
    typedef void *pointer;
    typedef DiscardOutputIterator &reference;

    DiscardOutputIterator(Offset = 0)
    {
    }
    template <class T> DiscardOutputIterator &operator=(const T &)
    {
        return *this;
    }
    DiscardOutputIterator operator*() const
    {
        return *this;
    }
    DiscardOutputIterator operator[](Offset) const
    {
        return *this;
    }
    DiscardOutputIterator operator+(Offset) const
    {
        return *this;
    }
    DiscardOutputIterator &operator++()
    {
        return *this;
    }
};

#undef SOFTGPU_REMOVED_FROM_CUB

} // namespace cub

#endif
