/*
 * softgpu_vectors.h - device_vector over cudaMalloc, host_vector over std::vector, and copies between them.
 */
#ifndef SOFTGPU_THRUST_VECTORS_H
#define SOFTGPU_THRUST_VECTORS_H
#pragma GCC system_header

#include "thrust/softgpu_iterators.h"

#include <algorithm>
#include <vector>

namespace thrust
{

template <class T, class Allocator = std::allocator<T>> class host_vector;
template <class T, class Allocator = void> class device_vector;

namespace softgpu_detail
{
template <class It>
inline constexpr bool is_contiguous =
    std::is_pointer<It>::value ||
    std::is_same<It, typename std::vector<typename std::iterator_traits<It>::value_type>::iterator>::value ||
    std::is_same<It, typename std::vector<typename std::iterator_traits<It>::value_type>::const_iterator>::value;
template <class T> inline constexpr bool is_contiguous<device_ptr<T>> = true;

template <class T>
inline T *
address(const device_ptr<T> &p)
{
    return p.get();
}
template <class It>
inline auto
address(const It &it)
{
    return std::addressof(*it);
}

/* Between the two: whole pieces of memory, or through a vector of the host. */
template <class In, class Out>
inline Out
copy_across(In first, In last, Out out)
{
    using T = typename std::iterator_traits<In>::value_type;
    using U = typename std::iterator_traits<Out>::value_type;
    const size_t count = static_cast<size_t>(std::distance(first, last));
    if (count == 0)
        return out;
    if constexpr (std::is_same<T, U>::value && is_contiguous<In> && is_contiguous<Out>) {
        check(cudaMemcpy((void *)address(out), (const void *)address(first), count * sizeof(T), cudaMemcpyDefault),
              "a copy");
        return out + static_cast<ptrdiff_t>(count);
    } else if constexpr (traits<In>::is_device) {
        std::vector<T> values(count);
        if constexpr (is_contiguous<In>)
            check(cudaMemcpy((void *)values.data(), (const void *)address(first), count * sizeof(T),
                             cudaMemcpyDeviceToHost),
                  "a copy");
        else
            for (size_t i = 0; i < count; ++i)
                values[i] = first[static_cast<ptrdiff_t>(i)];
        return std::copy(values.begin(), values.end(), out);
    } else {
        std::vector<U> values(first, last);
        check(cudaMemcpy((void *)address(out), (const void *)values.data(), count * sizeof(U), cudaMemcpyHostToDevice),
              "a copy");
        return out + static_cast<ptrdiff_t>(count);
    }
}
} // namespace softgpu_detail

template <class T, class> class device_vector
{
    T *place = nullptr;
    size_t count = 0, room = 0;

    void release()
    {
        (void)cudaFree(place);
        place = nullptr;
        count = room = 0;
    }
    void fill_from(size_t begin, const T &value)
    {
        T *to = place;
        const size_t from = begin, end = count;
        if (from < end)
            softgpu_detail::run_on_device(nullptr, [to, from, end, value] {
                for (size_t i = from; i < end; ++i)
                    to[i] = value;
            });
    }

  public:
    using value_type = T;
    using pointer = device_ptr<T>;
    using const_pointer = device_ptr<const T>;
    using reference = device_reference<T>;
    using const_reference = device_reference<const T>;
    using iterator = device_ptr<T>;
    using const_iterator = device_ptr<const T>;
    using size_type = size_t;
    using difference_type = ptrdiff_t;

    device_vector() = default;
    explicit device_vector(size_t n)
    {
        resize(n);
    }
    device_vector(size_t n, const T &value)
    {
        resize(n, value);
    }
    device_vector(const device_vector &other)
    {
        assign(other.begin(), other.end());
    }
    device_vector(device_vector &&other) noexcept
    {
        swap(other);
    }
    device_vector(std::initializer_list<T> values)
    {
        assign(values.begin(), values.end());
    }
    template <class A> device_vector(const host_vector<T, A> &other)
    {
        assign(other.begin(), other.end());
    }
    template <class A> device_vector(const std::vector<T, A> &other)
    {
        assign(other.begin(), other.end());
    }
    template <class It, class = typename std::iterator_traits<It>::iterator_category> device_vector(It first, It last)
    {
        assign(first, last);
    }
    ~device_vector()
    {
        release();
    }
    device_vector &operator=(const device_vector &other)
    {
        if (this != &other)
            assign(other.begin(), other.end());
        return *this;
    }
    device_vector &operator=(device_vector &&other) noexcept
    {
        swap(other);
        return *this;
    }
    template <class A> device_vector &operator=(const host_vector<T, A> &other)
    {
        assign(other.begin(), other.end());
        return *this;
    }
    template <class A> device_vector &operator=(const std::vector<T, A> &other)
    {
        assign(other.begin(), other.end());
        return *this;
    }

    template <class It, class = typename std::iterator_traits<It>::iterator_category> void assign(It first, It last)
    {
        const size_t n = static_cast<size_t>(std::distance(first, last));
        count = 0;
        reserve(n);
        count = n;
        softgpu_detail::copy_across(first, last, begin());
    }
    void assign(size_t n, const T &value)
    {
        count = 0;
        resize(n, value);
    }
    void reserve(size_t n)
    {
        if (n <= room)
            return;
        T *bigger = nullptr;
        softgpu_detail::check(cudaMalloc(&bigger, n * sizeof(T)), "memory for a device_vector");
        if (count > 0)
            softgpu_detail::check(cudaMemcpy(bigger, place, count * sizeof(T), cudaMemcpyDeviceToDevice),
                                  "moving a device_vector");
        (void)cudaFree(place);
        place = bigger;
        room = n;
    }
    void resize(size_t n, const T &value = T())
    {
        const size_t old = count;
        reserve(n);
        count = n;
        fill_from(old, value);
    }
    void shrink_to_fit()
    {
    }
    void clear()
    {
        count = 0;
    }
    void push_back(const T &value)
    {
        if (count == room)
            reserve(room == 0 ? 16 : 2 * room);
        ++count;
        back() = value;
    }
    void pop_back()
    {
        --count;
    }
    iterator erase(iterator first, iterator last)
    {
        const size_t behind = static_cast<size_t>(end() - last);
        std::vector<T> rest(behind);
        softgpu_detail::copy_across(last, end(), rest.data());
        softgpu_detail::copy_across(rest.data(), rest.data() + behind, first);
        count -= static_cast<size_t>(last - first);
        return first;
    }
    void swap(device_vector &other) noexcept
    {
        std::swap(place, other.place);
        std::swap(count, other.count);
        std::swap(room, other.room);
    }

    size_t size() const
    {
        return count;
    }
    size_t capacity() const
    {
        return room;
    }
    bool empty() const
    {
        return count == 0;
    }
    iterator begin()
    {
        return iterator(place);
    }
    iterator end()
    {
        return iterator(place + count);
    }
    const_iterator begin() const
    {
        return const_iterator(place);
    }
    const_iterator end() const
    {
        return const_iterator(place + count);
    }
    const_iterator cbegin() const
    {
        return begin();
    }
    const_iterator cend() const
    {
        return end();
    }
    auto rbegin()
    {
        return std::make_reverse_iterator(end());
    }
    auto rend()
    {
        return std::make_reverse_iterator(begin());
    }
    pointer data()
    {
        return pointer(place);
    }
    const_pointer data() const
    {
        return const_pointer(place);
    }
    reference operator[](size_t i)
    {
        return reference(place + i);
    }
    const_reference operator[](size_t i) const
    {
        return const_reference(place + i);
    }
    reference front()
    {
        return (*this)[0];
    }
    reference back()
    {
        return (*this)[count - 1];
    }
    const_reference front() const
    {
        return (*this)[0];
    }
    const_reference back() const
    {
        return (*this)[count - 1];
    }
};

template <class T, class A, class U, class B>
inline bool
operator==(const device_vector<T, A> &a, const device_vector<U, B> &b)
{
    std::vector<T> x(a.size());
    std::vector<U> y(b.size());
    softgpu_detail::copy_across(a.begin(), a.end(), x.data());
    softgpu_detail::copy_across(b.begin(), b.end(), y.data());
    return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

template <class T, class Allocator> class host_vector : public std::vector<T, Allocator>
{
  public:
    using std::vector<T, Allocator>::vector;

    host_vector() = default;
    host_vector(const std::vector<T, Allocator> &other) : std::vector<T, Allocator>(other)
    {
    }
    template <class A> host_vector(const device_vector<T, A> &other)
    {
        *this = other;
    }
    template <class U>
    host_vector(device_ptr<U> first, device_ptr<U> last) : std::vector<T, Allocator>(static_cast<size_t>(last - first))
    {
        softgpu_detail::copy_across(first, last, this->data());
    }
    template <class A> host_vector &operator=(const device_vector<T, A> &other)
    {
        this->resize(other.size());
        softgpu_detail::copy_across(other.begin(), other.end(), this->data());
        return *this;
    }
};

} // namespace thrust

#endif
