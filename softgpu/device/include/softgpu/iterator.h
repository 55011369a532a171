/*
 * softgpu/iterator.h - what the random-access iterators of Thrust and CUB share. C++11.
 */
#ifndef SOFTGPU_ITERATOR_H
#define SOFTGPU_ITERATOR_H
#pragma GCC system_header

#include <cstddef>
#include <iterator>
#include <type_traits>

namespace softgpu
{

/* Self has step(n) and difference(other). */
template <class Self, class Value, class Reference, class Pointer = Value *> struct iterator_base {
    using iterator_category = std::random_access_iterator_tag;
    using value_type = typename std::remove_cv<Value>::type;
    using difference_type = ptrdiff_t;
    using reference = Reference;
    using pointer = Pointer;

    Self &operator++()
    {
        self().step(1);
        return self();
    }
    Self operator++(int)
    {
        Self old = self();
        self().step(1);
        return old;
    }
    Self &operator--()
    {
        self().step(-1);
        return self();
    }
    Self operator--(int)
    {
        Self old = self();
        self().step(-1);
        return old;
    }
    Self &operator+=(ptrdiff_t n)
    {
        self().step(n);
        return self();
    }
    Self &operator-=(ptrdiff_t n)
    {
        self().step(-n);
        return self();
    }
    friend Self operator+(Self it, ptrdiff_t n)
    {
        return it += n;
    }
    friend Self operator+(ptrdiff_t n, Self it)
    {
        return it += n;
    }
    friend Self operator-(Self it, ptrdiff_t n)
    {
        return it -= n;
    }
    friend ptrdiff_t operator-(const Self &a, const Self &b)
    {
        return a.difference(b);
    }
    friend bool operator==(const Self &a, const Self &b)
    {
        return a.difference(b) == 0;
    }
    friend bool operator!=(const Self &a, const Self &b)
    {
        return a.difference(b) != 0;
    }
    friend bool operator<(const Self &a, const Self &b)
    {
        return a.difference(b) < 0;
    }
    friend bool operator>(const Self &a, const Self &b)
    {
        return a.difference(b) > 0;
    }
    friend bool operator<=(const Self &a, const Self &b)
    {
        return a.difference(b) <= 0;
    }
    friend bool operator>=(const Self &a, const Self &b)
    {
        return a.difference(b) >= 0;
    }
    Reference operator[](ptrdiff_t n) const
    {
        Self it = static_cast<const Self &>(*this);
        it.step(n);
        return *it;
    }

  private:
    Self &self()
    {
        return static_cast<Self &>(*this);
    }
};

/* Values that follow from an index: Self has get(index). */
template <class Self, class T> struct indexed_iterator : iterator_base<Self, T, T> {
    ptrdiff_t at = 0;

    T operator*() const
    {
        return static_cast<const Self &>(*this).get(at);
    }
    void step(ptrdiff_t n)
    {
        at += n;
    }
    ptrdiff_t difference(const Self &other) const
    {
        return at - other.at;
    }
};

} // namespace softgpu

#endif
