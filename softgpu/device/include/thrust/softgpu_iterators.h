/*
 * softgpu_iterators.h - device pointers and references, and Thrust's iterators: counting, constant, discard, transform,
 * zip, permutation, reverse.
 */
#ifndef SOFTGPU_THRUST_ITERATORS_H
#define SOFTGPU_THRUST_ITERATORS_H
#pragma GCC system_header

#include "softgpu/iterator.h"
#include "thrust/softgpu_run.h"

#include <ostream>
#include <tuple>

namespace thrust
{

template <class... T> using tuple = std::tuple<T...>;
template <class A, class B> using pair = std::pair<A, B>;
using std::get;
using std::make_pair;
using std::make_tuple;
using std::tie;
template <size_t N, class T> using tuple_element = std::tuple_element<N, T>;
template <class T> using tuple_size = std::tuple_size<T>;
using std::advance;
using std::distance;
using std::swap;

template <class T> class device_ptr;

/* An element of device memory, as the host reads and writes it. */
template <class T> class device_reference
{
    T *place;

  public:
    using value_type = std::remove_cv_t<T>;

    explicit device_reference(T *p) : place(p)
    {
    }
    device_reference(const device_reference &) = default;
    operator value_type() const
    {
        alignas(value_type) char bytes[sizeof(value_type)];
        softgpu_detail::check(cudaMemcpy(bytes, place, sizeof(value_type), cudaMemcpyDeviceToHost),
                              "reading an element");
        return *reinterpret_cast<value_type *>(bytes);
    }
    const device_reference &operator=(const value_type &value) const
    {
        softgpu_detail::check(cudaMemcpy(place, &value, sizeof(value_type), cudaMemcpyHostToDevice),
                              "writing an element");
        return *this;
    }
    const device_reference &operator=(const device_reference &other) const
    {
        return *this = static_cast<value_type>(other);
    }
    device_ptr<T> operator&() const
    {
        return device_ptr<T>(place);
    }
    template <class U> const device_reference &operator=(const device_reference<U> &other) const
    {
        return *this = static_cast<value_type>(static_cast<typename device_reference<U>::value_type>(other));
    }

#define SOFTGPU_ASSIGNMENT(sign)                                                           \
    template <class V> const device_reference &operator sign##=(const V &value) const      \
    {                                                                                      \
        return *this = static_cast<value_type>(static_cast<value_type>(*this) sign value); \
    }
    SOFTGPU_ASSIGNMENT(+)
    SOFTGPU_ASSIGNMENT(-)
    SOFTGPU_ASSIGNMENT(*)
    SOFTGPU_ASSIGNMENT(/)
    SOFTGPU_ASSIGNMENT(%)
    SOFTGPU_ASSIGNMENT(<<)
    SOFTGPU_ASSIGNMENT(>>)
    SOFTGPU_ASSIGNMENT(&)
    SOFTGPU_ASSIGNMENT(|)
    SOFTGPU_ASSIGNMENT(^)
#undef SOFTGPU_ASSIGNMENT

    const device_reference &operator++() const
    {
        return *this += 1;
    }
    const device_reference &operator--() const
    {
        return *this -= 1;
    }
    value_type operator++(int) const
    {
        const value_type old = *this;
        *this += 1;
        return old;
    }
    value_type operator--(int) const
    {
        const value_type old = *this;
        *this -= 1;
        return old;
    }
    void swap(const device_reference &other) const
    {
        const value_type mine = *this;
        *this = other;
        other = mine;
    }
};

template <class T>
inline void
swap(device_reference<T> a, device_reference<T> b)
{
    a.swap(b);
}

template <class Stream, class Traits, class T>
inline std::basic_ostream<Stream, Traits> &
operator<<(std::basic_ostream<Stream, Traits> &stream, const device_reference<T> &reference)
{
    return stream << static_cast<typename device_reference<T>::value_type>(reference);
}

using softgpu::indexed_iterator;
using softgpu::iterator_base;

template <class T> class device_ptr : public iterator_base<device_ptr<T>, T, device_reference<T>, device_ptr<T>>
{
    T *place = nullptr;

  public:
    using element_type = T;

    device_ptr() = default;
    device_ptr(std::nullptr_t)
    {
    }
    explicit device_ptr(T *p) : place(p)
    {
    }
    template <class U, class = std::enable_if_t<std::is_convertible<U *, T *>::value>>
    device_ptr(const device_ptr<U> &other) : place(other.get())
    {
    }
    T *get() const
    {
        return place;
    }
    device_reference<T> operator*() const
    {
        return device_reference<T>(place);
    }
    explicit operator bool() const
    {
        return place != nullptr;
    }
    void step(ptrdiff_t n)
    {
        place += n;
    }
    ptrdiff_t difference(const device_ptr &other) const
    {
        return place - other.place;
    }
};

template <class T>
inline device_ptr<T>
device_pointer_cast(T *p)
{
    return device_ptr<T>(p);
}
template <class T>
inline device_ptr<T>
device_pointer_cast(const device_ptr<T> &p)
{
    return p;
}
template <class T>
inline T *
raw_pointer_cast(const device_ptr<T> &p)
{
    return p.get();
}
template <class T>
inline T *
raw_pointer_cast(T *p)
{
    return p;
}
template <class T>
inline T &
raw_reference_cast(const device_reference<T> &r)
{
    return *(&r).get();
}

template <class T>
inline device_ptr<T>
device_malloc(size_t count)
{
    T *p = nullptr;
    softgpu_detail::check(cudaMalloc(&p, count * sizeof(T)), "device_malloc");
    return device_ptr<T>(p);
}
template <class T>
inline void
device_free(device_ptr<T> p)
{
    softgpu_detail::check(cudaFree(p.get()), "device_free");
}

namespace cuda
{
template <class T = void> using pointer = device_ptr<T>;
template <class T>
inline device_ptr<T>
malloc(size_t count)
{
    return ::thrust::device_malloc<T>(count);
}
template <class T>
inline void
free(device_ptr<T> p)
{
    ::thrust::device_free(p);
}
} // namespace cuda

/* ---- iterators over no memory, or over others ---- */

template <class T> class counting_iterator : public iterator_base<counting_iterator<T>, T, T>
{
    T value;

  public:
    counting_iterator(T v = T()) : value(v)
    {
    }
    T operator*() const
    {
        return value;
    }
    void step(ptrdiff_t n)
    {
        value = static_cast<T>(value + n);
    }
    ptrdiff_t difference(const counting_iterator &other) const
    {
        return static_cast<ptrdiff_t>(value) - static_cast<ptrdiff_t>(other.value);
    }
};

template <class T> class constant_iterator : public indexed_iterator<constant_iterator<T>, T>
{
    T value;

  public:
    constant_iterator(T v = T(), ptrdiff_t i = 0) : value(v)
    {
        this->at = i;
    }
    T get(ptrdiff_t) const
    {
        return value;
    }
};

/* What is written there is dropped. */
struct discard_iterator : indexed_iterator<discard_iterator, discard_iterator> {
    discard_iterator(ptrdiff_t i = 0)
    {
        at = i;
    }
    template <class T> const discard_iterator &operator=(const T &) const
    {
        return *this;
    }
    discard_iterator get(ptrdiff_t) const
    {
        return *this;
    }
};

template <class F, class It>
class transform_iterator
    : public iterator_base<transform_iterator<F, It>,
                           std::decay_t<std::invoke_result_t<F, typename std::iterator_traits<It>::value_type>>,
                           std::invoke_result_t<F, typename std::iterator_traits<It>::value_type>>
{
    It base_;
    F f;

  public:
    transform_iterator(It it, F function) : base_(it), f(function)
    {
    }
    decltype(auto) operator*() const
    {
        return f(static_cast<typename std::iterator_traits<It>::value_type>(*base_));
    }
    It base() const
    {
        return base_;
    }
    F functor() const
    {
        return f;
    }
    void step(ptrdiff_t n)
    {
        base_ += n;
    }
    ptrdiff_t difference(const transform_iterator &other) const
    {
        return base_ - other.base_;
    }
};

template <class Values, class Indices>
class permutation_iterator
    : public iterator_base<permutation_iterator<Values, Indices>, typename std::iterator_traits<Values>::value_type,
                           typename std::iterator_traits<Values>::reference>
{
    Values values_;
    Indices indices_;

  public:
    permutation_iterator(Values values, Indices indices) : values_(values), indices_(indices)
    {
    }
    typename std::iterator_traits<Values>::reference operator*() const
    {
        return values_[static_cast<ptrdiff_t>(*indices_)];
    }
    Values values() const
    {
        return values_;
    }
    Indices indices() const
    {
        return indices_;
    }
    void step(ptrdiff_t n)
    {
        indices_ += n;
    }
    ptrdiff_t difference(const permutation_iterator &other) const
    {
        return indices_ - other.indices_;
    }
};

template <class Tuple> class zip_iterator;
template <class... It>
class zip_iterator<std::tuple<It...>>
    : public iterator_base<zip_iterator<std::tuple<It...>>,
                           std::tuple<typename std::iterator_traits<It>::value_type...>,
                           std::tuple<typename std::iterator_traits<It>::reference...>>
{
    std::tuple<It...> its;

  public:
    zip_iterator() = default;
    zip_iterator(std::tuple<It...> iterators) : its(iterators)
    {
    }
    std::tuple<typename std::iterator_traits<It>::reference...> operator*() const
    {
        return std::apply(
            [](const It &...it) { return std::tuple<typename std::iterator_traits<It>::reference...>(*it...); }, its);
    }
    const std::tuple<It...> &get_iterator_tuple() const
    {
        return its;
    }
    void step(ptrdiff_t n)
    {
        std::apply([n](It &...it) { ((it += n), ...); }, its);
    }
    ptrdiff_t difference(const zip_iterator &other) const
    {
        return std::get<0>(its) - std::get<0>(other.its);
    }
};

template <class T>
inline counting_iterator<T>
make_counting_iterator(T value)
{
    return counting_iterator<T>(value);
}
template <class T>
inline constant_iterator<T>
make_constant_iterator(T value)
{
    return constant_iterator<T>(value);
}
inline discard_iterator
make_discard_iterator(ptrdiff_t i = 0)
{
    return discard_iterator(i);
}
template <class It, class F>
inline transform_iterator<F, It>
make_transform_iterator(It it, F f)
{
    return transform_iterator<F, It>(it, f);
}
template <class V, class I>
inline permutation_iterator<V, I>
make_permutation_iterator(V values, I indices)
{
    return permutation_iterator<V, I>(values, indices);
}
template <class... It>
inline zip_iterator<std::tuple<It...>>
make_zip_iterator(std::tuple<It...> its)
{
    return zip_iterator<std::tuple<It...>>(its);
}
template <class... It>
inline zip_iterator<std::tuple<It...>>
make_zip_iterator(It... its)
{
    return zip_iterator<std::tuple<It...>>(std::make_tuple(its...));
}
template <class It> using reverse_iterator = std::reverse_iterator<It>;
using std::make_reverse_iterator;

/* ---- what a kernel sees of them ---- */

namespace softgpu_detail
{
template <class T> struct traits<device_ptr<T>> {
    static constexpr bool is_device = true;
    static T *raw(device_ptr<T> it)
    {
        return it.get();
    }
};
template <class F, class It> struct traits<transform_iterator<F, It>> {
    static constexpr bool is_device = traits<It>::is_device;
    static auto raw(const transform_iterator<F, It> &it)
    {
        return make_transform_iterator(traits<It>::raw(it.base()), it.functor());
    }
};
template <class V, class I> struct traits<permutation_iterator<V, I>> {
    static constexpr bool is_device = traits<V>::is_device || traits<I>::is_device;
    static auto raw(const permutation_iterator<V, I> &it)
    {
        return make_permutation_iterator(traits<V>::raw(it.values()), traits<I>::raw(it.indices()));
    }
};
template <class... It> struct traits<zip_iterator<std::tuple<It...>>> {
    static constexpr bool is_device = any_on_device<It...>;
    static auto raw(const zip_iterator<std::tuple<It...>> &it)
    {
        return std::apply([](const It &...its) { return make_zip_iterator(std::make_tuple(traits<It>::raw(its)...)); },
                          it.get_iterator_tuple());
    }
};
template <class It> struct traits<std::reverse_iterator<It>> {
    static constexpr bool is_device = traits<It>::is_device;
    static auto raw(const std::reverse_iterator<It> &it)
    {
        return std::make_reverse_iterator(traits<It>::raw(it.base()));
    }
};
} // namespace softgpu_detail

} // namespace thrust

template <class It>
struct softgpu::kernel_iterator<It, std::enable_if_t<thrust::softgpu_detail::traits<It>::is_device>> {
    static auto of(It it)
    {
        return thrust::softgpu_detail::traits<It>::raw(it);
    }
};

#endif
