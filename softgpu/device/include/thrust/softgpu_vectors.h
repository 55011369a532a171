/*
 * softgpu_vectors.h - device_vector over cudaMalloc, host_vector over std::vector, and copies between them.
 */
#ifndef SOFTGPU_THRUST_VECTORS_H
#define SOFTGPU_THRUST_VECTORS_H
#pragma GCC system_header

#include "thrust/softgpu_iterators.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <vector>

namespace thrust
{

template <class T, class Allocator = std::allocator<T>> class host_vector;
template <class T, class Allocator = void> class device_vector;

namespace softgpu_detail
{
template <class It, class T = typename std::iterator_traits<It>::value_type>
inline constexpr bool is_of_vector =
    !std::is_same<T, bool>::value && (std::is_same<It, typename std::vector<T>::iterator>::value ||
                                      std::is_same<It, typename std::vector<T>::const_iterator>::value);
template <class It> inline constexpr bool is_contiguous = std::is_pointer<It>::value || is_of_vector<It>;
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

/* The elements as an array of the host. */
template <class It>
inline auto
on_host(It first, size_t count)
{
    using T = typename std::iterator_traits<It>::value_type;
    std::unique_ptr<T[]> values(new T[count]);
    if constexpr (traits<It>::is_device && is_contiguous<It>)
        check(cudaMemcpy((void *)values.get(), (const void *)address(first), count * sizeof(T), cudaMemcpyDeviceToHost),
              "a copy");
    else
        for (size_t i = 0; i < count; ++i, ++first)
            values[i] = *first;
    return values;
}

/* Between the two: whole pieces of memory, or through an array of the host. */
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
    } else {
        const auto values = on_host(first, count);
        if constexpr (traits<Out>::is_device && is_contiguous<Out>) {
            std::unique_ptr<U[]> converted(new U[count]);
            std::copy(values.get(), values.get() + count, converted.get());
            return copy_across(converted.get(), converted.get() + count, out);
        } else {
            return std::copy(values.get(), values.get() + count, out);
        }
    }
}
} // namespace softgpu_detail

template <class T, class> class device_vector
{
    T *place = nullptr;
    size_t count = 0, room = 0;

    template <class It> using if_iterator = typename std::iterator_traits<It>::iterator_category;

    void release()
    {
        (void)cudaFree(place);
        place = nullptr;
        count = room = 0;
    }
    void fill(size_t from, size_t end, const T &value)
    {
        T *to = place;
        if (from < end)
            softgpu_detail::run_on_device(nullptr, [to, from, end, value] {
                for (size_t i = from; i < end; ++i)
                    to[i] = value;
            });
    }
    static void move(const T *from, T *to, size_t n)
    {
        if (n > 0)
            softgpu_detail::check(cudaMemcpy(to, from, n * sizeof(T), cudaMemcpyDeviceToDevice),
                                  "moving a device_vector");
    }
    /* What is at `from` and after goes to `to`, which may overlap: through memory of its own. */
    void move_tail(size_t from, size_t to)
    {
        const size_t behind = count - from;
        device_vector tail;
        tail.reserve(behind);
        move(place + from, tail.place, behind);
        move(tail.place, place + to, behind);
    }
    /* Room for n elements at `at`, without a value. */
    void open(size_t at, size_t n)
    {
        if (count + n <= room) {
            move_tail(at, at + n);
            count += n;
            return;
        }
        device_vector bigger;
        bigger.reserve(std::max(count + n, 2 * room));
        move(place, bigger.place, at);
        move(place + at, bigger.place + at + n, count - at);
        bigger.count = count + n;
        swap(bigger);
    }

  public:
    using value_type = T;
    using pointer = device_ptr<T>;
    using const_pointer = device_ptr<const T>;
    using reference = device_reference<T>;
    using const_reference = device_reference<const T>;
    using iterator = device_ptr<T>;
    using const_iterator = device_ptr<const T>;
    using reverse_iterator = std::reverse_iterator<iterator>;
    using const_reverse_iterator = std::reverse_iterator<const_iterator>;
    using size_type = size_t;
    using difference_type = ptrdiff_t;

    device_vector() = default;
    explicit device_vector(size_t n)
    {
        resize(n);
    }
    explicit device_vector(size_t n, const T &value)
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
    template <class U, class A> explicit device_vector(const device_vector<U, A> &other)
    {
        assign(other.begin(), other.end());
    }
    template <class U, class A> device_vector(const host_vector<U, A> &other)
    {
        assign(other.begin(), other.end());
    }
    template <class U, class A> device_vector(const std::vector<U, A> &other)
    {
        assign(other.begin(), other.end());
    }
    template <class It, class = if_iterator<It>> device_vector(It first, It last)
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
    device_vector &operator=(std::initializer_list<T> values)
    {
        assign(values.begin(), values.end());
        return *this;
    }
    template <class U, class A> device_vector &operator=(const device_vector<U, A> &other)
    {
        assign(other.begin(), other.end());
        return *this;
    }
    template <class U, class A> device_vector &operator=(const host_vector<U, A> &other)
    {
        assign(other.begin(), other.end());
        return *this;
    }
    template <class U, class A> device_vector &operator=(const std::vector<U, A> &other)
    {
        assign(other.begin(), other.end());
        return *this;
    }

    template <class It, class = if_iterator<It>> void assign(It first, It last)
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
        move(place, bigger, count);
        (void)cudaFree(place);
        place = bigger;
        room = n;
    }
    void resize(size_t n, const T &value = T())
    {
        const size_t old = count;
        reserve(n);
        count = n;
        fill(old, n, value);
    }
    void shrink_to_fit()
    {
        if (count == room)
            return;
        device_vector exact;
        exact.reserve(count);
        move(place, exact.place, count);
        exact.count = count;
        swap(exact);
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
    iterator erase(const_iterator at)
    {
        return erase(at, at + 1);
    }
    iterator erase(const_iterator first, const_iterator last)
    {
        const size_t from = static_cast<size_t>(first - begin()), to = static_cast<size_t>(last - begin());
        if (from < to)
            move_tail(to, from);
        count -= to - from;
        return begin() + static_cast<ptrdiff_t>(from);
    }
    iterator insert(const_iterator at, const T &value)
    {
        const ptrdiff_t from = at - begin();
        insert(at, 1, value);
        return begin() + from;
    }
    void insert(const_iterator at, size_t n, const T &value)
    {
        const size_t from = static_cast<size_t>(at - begin());
        open(from, n);
        fill(from, from + n, value);
    }
    /* The elements may be this vector's own. */
    template <class It, class = if_iterator<It>> void insert(const_iterator at, It first, It last)
    {
        const device_vector more(first, last);
        const size_t from = static_cast<size_t>(at - begin());
        open(from, more.count);
        move(more.place, place + from, more.count);
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
    size_t max_size() const
    {
        return static_cast<size_t>(PTRDIFF_MAX) / sizeof(T);
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
    reverse_iterator rbegin()
    {
        return reverse_iterator(end());
    }
    reverse_iterator rend()
    {
        return reverse_iterator(begin());
    }
    const_reverse_iterator rbegin() const
    {
        return const_reverse_iterator(end());
    }
    const_reverse_iterator rend() const
    {
        return const_reverse_iterator(begin());
    }
    const_reverse_iterator crbegin() const
    {
        return rbegin();
    }
    const_reverse_iterator crend() const
    {
        return rend();
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

template <class T, class A>
inline void
swap(device_vector<T, A> &a, device_vector<T, A> &b) noexcept
{
    a.swap(b);
}

/* ---- comparisons: with each other and with the host's vectors ---- */

namespace softgpu_detail
{
template <class A, class B>
inline bool
have_equal_elements(const A &a, const B &b)
{
    if (a.size() != b.size())
        return false;
    const auto x = on_host(a.begin(), a.size());
    const auto y = on_host(b.begin(), b.size());
    return std::equal(x.get(), x.get() + a.size(), y.get());
}
} // namespace softgpu_detail

#define SOFTGPU_COMPARE(one, other)                                                                                \
    template <class T, class A, class U, class B> inline bool operator==(const one<T, A> &a, const other<U, B> &b) \
    {                                                                                                              \
        return softgpu_detail::have_equal_elements(a, b);                                                          \
    }                                                                                                              \
    template <class T, class A, class U, class B> inline bool operator!=(const one<T, A> &a, const other<U, B> &b) \
    {                                                                                                              \
        return !(a == b);                                                                                          \
    }
SOFTGPU_COMPARE(device_vector, device_vector)
SOFTGPU_COMPARE(device_vector, std::vector)
SOFTGPU_COMPARE(std::vector, device_vector)
#undef SOFTGPU_COMPARE

template <class T, class Allocator> class host_vector : public std::vector<T, Allocator>
{
    using base = std::vector<T, Allocator>;

  public:
    using base::base;
    using base::operator=;

    host_vector() = default;
    template <class U, class A> host_vector(const std::vector<U, A> &other) : base(other.begin(), other.end())
    {
    }
    template <class U, class A> host_vector(const device_vector<U, A> &other)
    {
        *this = other;
    }
    template <class U> host_vector(device_ptr<U> first, device_ptr<U> last) : base(static_cast<size_t>(last - first))
    {
        softgpu_detail::copy_across(first, last, this->begin());
    }
    template <class U, class A> host_vector &operator=(const std::vector<U, A> &other)
    {
        this->assign(other.begin(), other.end());
        return *this;
    }
    template <class U, class A> host_vector &operator=(const device_vector<U, A> &other)
    {
        this->resize(other.size());
        softgpu_detail::copy_across(other.begin(), other.end(), this->begin());
        return *this;
    }
};

} // namespace thrust

#endif
