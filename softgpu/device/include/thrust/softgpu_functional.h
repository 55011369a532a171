/*
 * softgpu_functional.h - Thrust's function objects, its placeholders, and its random numbers, which are those of the
 * C++ standard library: not a GPU's, like those of XORWOW.
 */
#ifndef SOFTGPU_THRUST_FUNCTIONAL_H
#define SOFTGPU_THRUST_FUNCTIONAL_H
#pragma GCC system_header

#include "thrust/softgpu_run.h"

#include <functional>
#include <random>
#include <tuple>

namespace thrust
{

template <class T = void> using plus = std::plus<T>;
template <class T = void> using minus = std::minus<T>;
template <class T = void> using multiplies = std::multiplies<T>;
template <class T = void> using divides = std::divides<T>;
template <class T = void> using modulus = std::modulus<T>;
template <class T = void> using negate = std::negate<T>;
template <class T = void> using equal_to = std::equal_to<T>;
template <class T = void> using not_equal_to = std::not_equal_to<T>;
template <class T = void> using greater = std::greater<T>;
template <class T = void> using less = std::less<T>;
template <class T = void> using greater_equal = std::greater_equal<T>;
template <class T = void> using less_equal = std::less_equal<T>;
template <class T = void> using logical_and = std::logical_and<T>;
template <class T = void> using logical_or = std::logical_or<T>;
template <class T = void> using logical_not = std::logical_not<T>;
template <class T = void> using bit_and = std::bit_and<T>;
template <class T = void> using bit_or = std::bit_or<T>;
template <class T = void> using bit_xor = std::bit_xor<T>;

#define SOFTGPU_OF_TWO(name, expression)                                                    \
    template <class T = void> struct name {                                                 \
        constexpr T operator()(const T &a, const T &b) const                                \
        {                                                                                   \
            return expression;                                                              \
        }                                                                                   \
    };                                                                                      \
    template <> struct name<void> {                                                         \
        template <class A, class B> constexpr auto operator()(const A &a, const B &b) const \
        {                                                                                   \
            return expression;                                                              \
        }                                                                                   \
    };
SOFTGPU_OF_TWO(maximum, a < b ? b : a)
SOFTGPU_OF_TWO(minimum, b < a ? b : a)
#undef SOFTGPU_OF_TWO

template <class T = void> struct square {
    constexpr T operator()(const T &a) const
    {
        return a * a;
    }
};
template <> struct square<void> {
    template <class A> constexpr auto operator()(const A &a) const
    {
        return a * a;
    }
};
template <class T = void> struct identity {
    constexpr const T &operator()(const T &a) const
    {
        return a;
    }
};
template <> struct identity<void> {
    template <class A> constexpr A &&operator()(A &&a) const
    {
        return std::forward<A>(a);
    }
};

/* ---- a * _1 + _2 ---- */

namespace placeholders
{
namespace detail
{
/* Tells an expression from a value. */
template <class E> struct expression {
    E part;
    template <class... A> constexpr auto operator()(const A &...arguments) const
    {
        return part(arguments...);
    }
};
template <size_t N> struct argument {
    template <class... A> constexpr auto operator()(const A &...arguments) const
    {
        return std::get<N>(std::tuple<A...>(arguments...));
    }
};
template <class T> struct constant {
    T value;
    template <class... A> constexpr T operator()(const A &...) const
    {
        return value;
    }
};
template <class Op, class... E> struct operation {
    std::tuple<E...> parts;
    template <class... A> constexpr auto operator()(const A &...arguments) const
    {
        return std::apply([&](const E &...part) { return Op()(part(arguments...)...); }, parts);
    }
};
template <class T>
constexpr auto
part_of(const T &value)
{
    return constant<T>{value};
}
template <class E>
constexpr auto
part_of(const expression<E> &e)
{
    return e.part;
}
template <class Op, class... T>
constexpr auto
make(const T &...operands)
{
    typedef operation<Op, decltype(part_of(operands))...> made;
    return expression<made>{made{std::make_tuple(part_of(operands)...)}};
}
#define SOFTGPU_PLACEHOLDER_OPERATOR(sign, function)                                                                \
    template <class E, class T> constexpr auto operator sign(const expression<E> &left, const T &right)             \
    {                                                                                                               \
        return make<std::function<>>(left, right);                                                                  \
    }                                                                                                               \
    template <class T, class E> constexpr auto operator sign(const T &left, const expression<E> &right)             \
    {                                                                                                               \
        return make<std::function<>>(left, right);                                                                  \
    }                                                                                                               \
    template <class E, class F> constexpr auto operator sign(const expression<E> &left, const expression<F> &right) \
    {                                                                                                               \
        return make<std::function<>>(left, right);                                                                  \
    }
SOFTGPU_PLACEHOLDER_OPERATOR(+, plus)
SOFTGPU_PLACEHOLDER_OPERATOR(-, minus)
SOFTGPU_PLACEHOLDER_OPERATOR(*, multiplies)
SOFTGPU_PLACEHOLDER_OPERATOR(/, divides)
SOFTGPU_PLACEHOLDER_OPERATOR(%, modulus)
SOFTGPU_PLACEHOLDER_OPERATOR(<, less)
SOFTGPU_PLACEHOLDER_OPERATOR(>, greater)
SOFTGPU_PLACEHOLDER_OPERATOR(<=, less_equal)
SOFTGPU_PLACEHOLDER_OPERATOR(>=, greater_equal)
SOFTGPU_PLACEHOLDER_OPERATOR(==, equal_to)
SOFTGPU_PLACEHOLDER_OPERATOR(!=, not_equal_to)
SOFTGPU_PLACEHOLDER_OPERATOR(&&, logical_and)
SOFTGPU_PLACEHOLDER_OPERATOR(||, logical_or)
#undef SOFTGPU_PLACEHOLDER_OPERATOR
template <class E>
constexpr auto
operator-(const expression<E> &operand)
{
    return make<std::negate<>>(operand);
}
template <class E>
constexpr auto
operator!(const expression<E> &operand)
{
    return make<std::logical_not<>>(operand);
}
} // namespace detail

inline constexpr detail::expression<detail::argument<0>> _1{};
inline constexpr detail::expression<detail::argument<1>> _2{};
inline constexpr detail::expression<detail::argument<2>> _3{};
} // namespace placeholders

/* The types that functors used to derive from. */
template <class Argument, class Result> struct unary_function {
    using argument_type = Argument;
    using result_type = Result;
};
template <class First, class Second, class Result> struct binary_function {
    using first_argument_type = First;
    using second_argument_type = Second;
    using result_type = Result;
};

namespace random
{
using minstd_rand = std::minstd_rand;
using default_random_engine = std::minstd_rand;
template <class T = float> using uniform_real_distribution = std::uniform_real_distribution<T>;
template <class T = int> using uniform_int_distribution = std::uniform_int_distribution<T>;
template <class T = float> using normal_distribution = std::normal_distribution<T>;
} // namespace random
using random::default_random_engine;
using random::minstd_rand;
using random::normal_distribution;
using random::uniform_int_distribution;
using random::uniform_real_distribution;

} // namespace thrust

#endif
