/*
 * softgpu/cast.h - conversions to integers as a GPU makes them: toward zero, held to the range of the type, and NaN
 * gives 0, or 1 << 63 where one of the two types has 64 bits, with the bits of the integer (PTX's cvt). The CPU gives
 * one number for all that is out of range. Types below 32 bits get the low bits of a 32-bit number, as nvcc has it.
 * casts.c of softgpu-cc writes cast<T> into device code, beside the user's T. C++11 and later.
 */
#ifndef SOFTGPU_CAST_H
#define SOFTGPU_CAST_H
#pragma GCC system_header

#include <limits>
#include <type_traits>

namespace softgpu
{

/* W: int, unsigned or an integer of 64 bits. */
template <class W, class F>
__attribute__((always_inline)) constexpr W
saturated(F x)
{
    typedef std::numeric_limits<W> limits;
    return x >= F(limits::max() / 2 + 1) * 2 ? limits::max()
           : x >= F(limits::min())           ? static_cast<W>(x)
           : x == x                          ? limits::min()
           : sizeof(F) > 4 || sizeof(W) > 4  ? static_cast<W>(limits::is_signed ? limits::min() : limits::max() / 2 + 1)
                                             : 0;
}

template <class I, bool IsSmall>
using wide =
    typename std::conditional<IsSmall, typename std::conditional<std::is_signed<I>::value, int, unsigned>::type,
                              I>::type;

/* An I, made from anything that can be cast to it. */
template <class I> struct integer {
    I value;

    template <class T>
    __attribute__((always_inline)) constexpr integer(T from) : value(convert(from, std::is_floating_point<T>()))
    {
    }
    __attribute__((always_inline)) constexpr operator I() const
    {
        return value;
    }

  private:
    template <class T> static __attribute__((always_inline)) constexpr I convert(T from, std::true_type)
    {
        return static_cast<I>(saturated<wide<I, (sizeof(I) < sizeof(int))>>(from));
    }
    template <class T> static __attribute__((always_inline)) constexpr I convert(T &from, std::false_type)
    {
        return (I)from;
    }
};

/* What `(T)x` goes through: integer<T>, or T itself where T is none, or bool. */
template <class T>
using cast = typename std::conditional<std::is_integral<T>::value && sizeof(T) <= 8 &&
                                           !std::is_same<typename std::remove_cv<T>::type, bool>::value,
                                       integer<typename std::remove_cv<T>::type>, T>::type;

} // namespace softgpu

#endif
