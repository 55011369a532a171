/*
 * softgpu_algorithms.h - Thrust's algorithms, each with and without a policy in front. softgpu_run.h says how they run.
 */
#ifndef SOFTGPU_THRUST_ALGORITHMS_H
#define SOFTGPU_THRUST_ALGORITHMS_H
#pragma GCC system_header

#include "thrust/softgpu_functional.h"
#include "thrust/softgpu_scans.h"
#include "thrust/softgpu_selections.h"
#include "thrust/softgpu_sorted.h"
#include "thrust/softgpu_vectors.h"

#include <cfloat>
#include <iostream>
#include <memory>
#include <numeric>

namespace thrust
{

/* ---- element by element ---- */

namespace softgpu_detail
{
/* f(an element of each), one after the other. */
template <class P, class F, class It, class... More>
inline void
each(const P &policy, F f, It first, It last, More... more)
{
    run(
        policy,
        [f](auto begin, auto end, auto... at) mutable {
            for (; begin != end; ++begin, ((void)++at, ...))
                f(*begin, *at...);
        },
        first, last, more...);
}
} // namespace softgpu_detail

template <class P, class It, class F, softgpu_detail::if_policy<P> = 0>
inline It
for_each(const P &policy, It first, It last, F f)
{
    softgpu_detail::each(policy, f, first, last);
    return last;
}

template <class P, class It, class N, class F, softgpu_detail::if_policy<P> = 0>
inline It
for_each_n(const P &policy, It first, N count, F f)
{
    return ::thrust::for_each(policy, first, first + static_cast<ptrdiff_t>(count), f);
}

template <class P, class It, class Out, class F, softgpu_detail::if_policy<P> = 0>
inline Out
transform(const P &policy, It first, It last, Out out, F f)
{
    softgpu_detail::each(
        policy, [f](auto &&x, auto &&to) mutable { to = f(x); }, first, last, out);
    return out + (last - first);
}

template <class P, class It, class Other, class Out, class F, softgpu_detail::if_policy<P> = 0>
inline Out
transform(const P &policy, It first, It last, Other other, Out out, F f)
{
    softgpu_detail::each(
        policy, [f](auto &&x, auto &&y, auto &&to) mutable { to = f(x, y); }, first, last, other, out);
    return out + (last - first);
}

template <class P, class It, class Stencil, class Out, class F, class Pred, softgpu_detail::if_policy<P> = 0>
inline Out
transform_if(const P &policy, It first, It last, Stencil stencil, Out out, F f, Pred wanted)
{
    softgpu_detail::each(
        policy,
        [f, wanted](auto &&x, auto &&flag, auto &&to) mutable {
            if (wanted(flag))
                to = f(x);
        },
        first, last, stencil, out);
    return out + (last - first);
}

template <class P, class It, class Out, class F, class Pred, softgpu_detail::if_policy<P> = 0>
inline Out
transform_if(const P &policy, It first, It last, Out out, F f, Pred wanted)
{
    return ::thrust::transform_if(policy, first, last, first, out, f, wanted);
}

template <class P, class It, class Other, class Stencil, class Out, class F, class Pred,
          softgpu_detail::if_policy<P> = 0>
inline Out
transform_if(const P &policy, It first, It last, Other other, Stencil stencil, Out out, F f, Pred wanted)
{
    softgpu_detail::each(
        policy,
        [f, wanted](auto &&x, auto &&y, auto &&flag, auto &&to) mutable {
            if (wanted(flag))
                to = f(x, y);
        },
        first, last, other, stencil, out);
    return out + (last - first);
}

template <class P, class It, class T, softgpu_detail::if_policy<P> = 0>
inline void
fill(const P &policy, It first, It last, const T &value)
{
    const value_of<It> converted = value;
    softgpu_detail::run(
        policy, [converted](auto begin, auto end) { std::fill(begin, end, converted); }, first, last);
}

template <class P, class It, class N, class T, softgpu_detail::if_policy<P> = 0>
inline It
fill_n(const P &policy, It first, N count, const T &value)
{
    ::thrust::fill(policy, first, first + static_cast<ptrdiff_t>(count), value);
    return first + static_cast<ptrdiff_t>(count);
}

template <class P, class It, class T = value_of<It>, class S = T, softgpu_detail::if_policy<P> = 0>
inline void
sequence(const P &policy, It first, It last, T init = T(), S step = S(1))
{
    softgpu_detail::run(
        policy,
        [init, step](auto begin, auto end) {
            for (ptrdiff_t i = 0; begin != end; ++begin, ++i)
                *begin = static_cast<value_of<decltype(begin)>>(init + static_cast<T>(i) * step);
        },
        first, last);
}

template <class P, class It, class F, softgpu_detail::if_policy<P> = 0>
inline void
generate(const P &policy, It first, It last, F f)
{
    softgpu_detail::run(
        policy, [f](auto begin, auto end) mutable { std::generate(begin, end, f); }, first, last);
}

template <class P, class It, class N, class F, softgpu_detail::if_policy<P> = 0>
inline It
generate_n(const P &policy, It first, N count, F f)
{
    ::thrust::generate(policy, first, first + static_cast<ptrdiff_t>(count), f);
    return first + static_cast<ptrdiff_t>(count);
}

template <class P, class It, class F, softgpu_detail::if_policy<P> = 0>
inline void
tabulate(const P &policy, It first, It last, F f)
{
    softgpu_detail::run(
        policy,
        [f](auto begin, auto end) mutable {
            for (ptrdiff_t i = 0; begin != end; ++begin, ++i)
                *begin = f(static_cast<value_of<decltype(begin)>>(i));
        },
        first, last);
}

template <class P, class It, class F, class T, softgpu_detail::if_policy<P> = 0>
inline void
replace_if(const P &policy, It first, It last, F f, const T &value)
{
    softgpu_detail::run(
        policy, [f, value](auto begin, auto end) { std::replace_if(begin, end, f, value); }, first, last);
}

template <class P, class It, class Stencil, class F, class T, softgpu_detail::if_policy<P> = 0>
inline void
replace_if(const P &policy, It first, It last, Stencil stencil, F f, const T &value)
{
    const value_of<It> converted = value;
    ::thrust::transform_if(
        policy, first, last, stencil, first, [converted](const auto &) { return converted; }, f);
}

template <class P, class It, class Out, class F, class T, softgpu_detail::if_policy<P> = 0>
inline Out
replace_copy_if(const P &policy, It first, It last, Out out, F f, const T &value)
{
    return ::thrust::transform(policy, first, last, out, [f, value](const auto &x) {
        return f(x) ? static_cast<value_of<It>>(value) : static_cast<value_of<It>>(x);
    });
}

template <class P, class It, class Out, class T, softgpu_detail::if_policy<P> = 0>
inline Out
replace_copy(const P &policy, It first, It last, Out out, const T &old, const T &value)
{
    return ::thrust::replace_copy_if(
        policy, first, last, out, [old](const auto &x) { return x == old; }, value);
}

template <class P, class It, class T, softgpu_detail::if_policy<P> = 0>
inline void
replace(const P &policy, It first, It last, const T &old, const T &value)
{
    softgpu_detail::run(
        policy, [old, value](auto begin, auto end) { std::replace(begin, end, old, value); }, first, last);
}

template <class P, class Map, class Stencil, class In, class Out, class F = identity<>,
          softgpu_detail::if_policy<P> = 0>
inline Out
gather_if(const P &policy, Map first, Map last, Stencil stencil, In in, Out out, F f = F())
{
    const auto from = ::thrust::make_permutation_iterator(in, first);
    return ::thrust::transform_if(policy, from, from + (last - first), stencil, out, identity<>(), f);
}

template <class P, class In, class Map, class Stencil, class Out, class F = identity<>,
          softgpu_detail::if_policy<P> = 0>
inline void
scatter_if(const P &policy, In first, In last, Map map, Stencil stencil, Out out, F f = F())
{
    ::thrust::transform_if(policy, first, last, stencil, ::thrust::make_permutation_iterator(out, map), identity<>(),
                           f);
}

template <class P, class Map, class In, class Out, softgpu_detail::if_policy<P> = 0>
inline Out
gather(const P &policy, Map first, Map last, In in, Out out)
{
    const auto from = ::thrust::make_permutation_iterator(in, first);
    return ::thrust::transform(policy, from, from + (last - first), out, identity<>());
}

template <class P, class In, class Map, class Out, softgpu_detail::if_policy<P> = 0>
inline void
scatter(const P &policy, In first, In last, Map map, Out out)
{
    ::thrust::transform(policy, first, last, ::thrust::make_permutation_iterator(out, map), identity<>());
}

template <class P, class It, class Other, softgpu_detail::if_policy<P> = 0>
inline Other
swap_ranges(const P &policy, It first, It last, Other other)
{
    softgpu_detail::run(
        policy, [](auto begin, auto end, auto second) { std::swap_ranges(begin, end, second); }, first, last, other);
    return other + (last - first);
}

/* ---- into memory without objects ---- */

template <class P, class It, class T, softgpu_detail::if_policy<P> = 0>
inline void
uninitialized_fill(const P &policy, It first, It last, const T &value)
{
    const value_of<It> converted = value;
    softgpu_detail::run(
        policy, [converted](auto begin, auto end) { std::uninitialized_fill(begin, end, converted); }, first, last);
}

template <class P, class It, class N, class T, softgpu_detail::if_policy<P> = 0>
inline It
uninitialized_fill_n(const P &policy, It first, N count, const T &value)
{
    ::thrust::uninitialized_fill(policy, first, first + static_cast<ptrdiff_t>(count), value);
    return first + static_cast<ptrdiff_t>(count);
}

template <class P, class It, class Out, softgpu_detail::if_policy<P> = 0>
inline Out
uninitialized_copy(const P &policy, It first, It last, Out out)
{
    softgpu_detail::run(
        policy, [](auto begin, auto end, auto to) { std::uninitialized_copy(begin, end, to); }, first, last, out);
    return out + (last - first);
}

template <class P, class It, class N, class Out, softgpu_detail::if_policy<P> = 0>
inline Out
uninitialized_copy_n(const P &policy, It first, N count, Out out)
{
    return ::thrust::uninitialized_copy(policy, first, first + static_cast<ptrdiff_t>(count), out);
}

/* ---- copies: the only ones that go between host and device ---- */

template <class P, class It, class Out, softgpu_detail::if_policy<P> = 0>
inline Out
copy(const P &policy, It first, It last, Out out)
{
    softgpu_detail::run(
        policy, [](auto begin, auto end, auto to) { std::copy(begin, end, to); }, first, last, out);
    return out + (last - first);
}

template <class It, class Out, softgpu_detail::if_no_policy<It> = 0>
inline Out
copy(It first, It last, Out out)
{
    constexpr bool from = softgpu_detail::traits<It>::is_device, to = softgpu_detail::traits<Out>::is_device;
    if constexpr (from == to)
        return ::thrust::copy(softgpu_detail::policy_of<It>(), first, last, out);
    else
        return softgpu_detail::copy_across(first, last, out);
}

template <class It, class N, class Out>
inline Out
copy_n(It first, N count, Out out)
{
    return ::thrust::copy(first, first + static_cast<ptrdiff_t>(count), out);
}

/* ---- to one value ---- */

template <class P, class It, class T = value_of<It>, class F = plus<>, softgpu_detail::if_policy<P> = 0>
inline T
reduce(const P &policy, It first, It last, T init = T(), F f = F())
{
    return softgpu_detail::get<T>(
        policy,
        [init, f](auto begin, auto end) mutable {
            T sum = init;
            for (; begin != end; ++begin)
                sum = f(sum, static_cast<value_of<decltype(begin)>>(*begin));
            return sum;
        },
        first, last);
}

template <class P, class It, class U, class T, class F, softgpu_detail::if_policy<P> = 0>
inline T
transform_reduce(const P &policy, It first, It last, U unary, T init, F f)
{
    return softgpu_detail::get<T>(
        policy,
        [unary, init, f](auto begin, auto end) mutable {
            T sum = init;
            for (; begin != end; ++begin)
                sum = f(sum, unary(*begin));
            return sum;
        },
        first, last);
}

template <class P, class It, class Other, class T, class F = plus<>, class G = multiplies<>,
          softgpu_detail::if_policy<P> = 0>
inline T
inner_product(const P &policy, It first, It last, Other other, T init, F f = F(), G g = G())
{
    return softgpu_detail::get<T>(
        policy,
        [init, f, g](auto begin, auto end, auto second) mutable {
            T sum = init;
            for (; begin != end; ++begin, ++second)
                sum = f(sum, g(*begin, *second));
            return sum;
        },
        first, last, other);
}

template <class P, class It, class F, softgpu_detail::if_policy<P> = 0>
inline ptrdiff_t
count_if(const P &policy, It first, It last, F f)
{
    return softgpu_detail::get<ptrdiff_t>(
        policy, [f](auto begin, auto end) { return static_cast<ptrdiff_t>(std::count_if(begin, end, f)); }, first,
        last);
}

template <class P, class It, class T, softgpu_detail::if_policy<P> = 0>
inline ptrdiff_t
count(const P &policy, It first, It last, const T &value)
{
    return ::thrust::count_if(policy, first, last, [value](const auto &x) { return x == value; });
}

#define SOFTGPU_SEARCH(name, type, ...)                                                                            \
    template <class P, class It, class F, softgpu_detail::if_policy<P> = 0>                                        \
    inline auto name(const P &policy, It first, It last, F f)                                                      \
    {                                                                                                              \
        return softgpu_detail::get<type>(                                                                          \
            policy, [f](auto begin, auto end) { return static_cast<type>(std::name(begin, end, f) __VA_ARGS__); }, \
            first, last);                                                                                          \
    }
SOFTGPU_SEARCH(all_of, bool)
SOFTGPU_SEARCH(any_of, bool)
SOFTGPU_SEARCH(none_of, bool)
#undef SOFTGPU_SEARCH

#define SOFTGPU_FIND(name)                                                                                         \
    template <class P, class It, class F = less<>, softgpu_detail::if_policy<P> = 0>                               \
    inline It name(const P &policy, It first, It last, F f = F())                                                  \
    {                                                                                                              \
        return first +                                                                                             \
               softgpu_detail::get<ptrdiff_t>(                                                                     \
                   policy,                                                                                         \
                   [f](auto begin, auto end) { return static_cast<ptrdiff_t>(std::name(begin, end, f) - begin); }, \
                   first, last);                                                                                   \
    }
SOFTGPU_FIND(find_if)
SOFTGPU_FIND(find_if_not)
SOFTGPU_FIND(max_element)
SOFTGPU_FIND(min_element)
SOFTGPU_FIND(is_sorted_until)
#undef SOFTGPU_FIND

template <class P, class It, class T, softgpu_detail::if_policy<P> = 0>
inline It
find(const P &policy, It first, It last, const T &value)
{
    return ::thrust::find_if(policy, first, last, [value](const auto &element) { return element == value; });
}

template <class P, class It, class F = less<>, softgpu_detail::if_policy<P> = 0>
inline std::pair<It, It>
minmax_element(const P &policy, It first, It last, F f = F())
{
    return {::thrust::min_element(policy, first, last, f), ::thrust::max_element(policy, first, last, f)};
}

template <class P, class It, class Other, class F = equal_to<>, softgpu_detail::if_policy<P> = 0>
inline bool
equal(const P &policy, It first, It last, Other other, F f = F())
{
    return softgpu_detail::get<bool>(
        policy, [f](auto begin, auto end, auto second) { return std::equal(begin, end, second, f); }, first, last,
        other);
}

template <class P, class It, class Other, class F = equal_to<>, softgpu_detail::if_policy<P> = 0>
inline std::pair<It, Other>
mismatch(const P &policy, It first, It last, Other other, F f = F())
{
    const ptrdiff_t place = softgpu_detail::get<ptrdiff_t>(
        policy,
        [f](auto begin, auto end, auto second) {
            return static_cast<ptrdiff_t>(std::mismatch(begin, end, second, f).first - begin);
        },
        first, last, other);
    return {first + place, other + place};
}

/* ---- order ---- */

#define SOFTGPU_SORT(name)                                                                                 \
    template <class P, class It, class F = less<>, softgpu_detail::if_policy<P> = 0>                       \
    inline void name(const P &policy, It first, It last, F f = F())                                        \
    {                                                                                                      \
        softgpu_detail::run(                                                                               \
            policy, [f](auto begin, auto end) { std::stable_sort(begin, end, f); }, first, last);          \
    }                                                                                                      \
    template <class P, class K, class V, class F = less<>, softgpu_detail::if_policy<P> = 0>               \
    inline void name##_by_key(const P &policy, K first, K last, V values, F f = F())                       \
    {                                                                                                      \
        softgpu_detail::run(                                                                               \
            policy,                                                                                        \
            [f](auto begin, auto end, auto value) {                                                        \
                const size_t count = static_cast<size_t>(end - begin);                                     \
                std::vector<std::pair<value_of<decltype(begin)>, value_of<decltype(value)>>> both;         \
                for (size_t i = 0; i < count; ++i)                                                         \
                    both.emplace_back(begin[static_cast<ptrdiff_t>(i)], value[static_cast<ptrdiff_t>(i)]); \
                std::stable_sort(both.begin(), both.end(),                                                 \
                                 [f](const auto &a, const auto &b) { return f(a.first, b.first); });       \
                for (size_t i = 0; i < count; ++i) {                                                       \
                    begin[static_cast<ptrdiff_t>(i)] = both[i].first;                                      \
                    value[static_cast<ptrdiff_t>(i)] = both[i].second;                                     \
                }                                                                                          \
            },                                                                                             \
            first, last, values);                                                                          \
    }
SOFTGPU_SORT(sort)
SOFTGPU_SORT(stable_sort)
#undef SOFTGPU_SORT

template <class P, class It, class F = less<>, softgpu_detail::if_policy<P> = 0>
inline bool
is_sorted(const P &policy, It first, It last, F f = F())
{
    return softgpu_detail::get<bool>(
        policy, [f](auto begin, auto end) { return std::is_sorted(begin, end, f); }, first, last);
}

template <class P, class It, softgpu_detail::if_policy<P> = 0>
inline void
reverse(const P &policy, It first, It last)
{
    softgpu_detail::run(
        policy, [](auto begin, auto end) { std::reverse(begin, end); }, first, last);
}

SOFTGPU_WITHOUT_POLICY(for_each)
SOFTGPU_WITHOUT_POLICY(for_each_n)
SOFTGPU_WITHOUT_POLICY(transform)
SOFTGPU_WITHOUT_POLICY(fill)
SOFTGPU_WITHOUT_POLICY(fill_n)
SOFTGPU_WITHOUT_POLICY(sequence)
SOFTGPU_WITHOUT_POLICY(generate)
SOFTGPU_WITHOUT_POLICY(tabulate)
SOFTGPU_WITHOUT_POLICY(replace_if)
SOFTGPU_WITHOUT_POLICY(replace)
SOFTGPU_WITHOUT_POLICY(gather)
SOFTGPU_WITHOUT_POLICY(scatter)
SOFTGPU_WITHOUT_POLICY(reduce)
SOFTGPU_WITHOUT_POLICY(transform_reduce)
SOFTGPU_WITHOUT_POLICY(inner_product)
SOFTGPU_WITHOUT_POLICY(count_if)
SOFTGPU_WITHOUT_POLICY(count)
SOFTGPU_WITHOUT_POLICY(all_of)
SOFTGPU_WITHOUT_POLICY(any_of)
SOFTGPU_WITHOUT_POLICY(none_of)
SOFTGPU_WITHOUT_POLICY(find)
SOFTGPU_WITHOUT_POLICY(find_if)
SOFTGPU_WITHOUT_POLICY(max_element)
SOFTGPU_WITHOUT_POLICY(min_element)
SOFTGPU_WITHOUT_POLICY(equal)
SOFTGPU_WITHOUT_POLICY(sort)
SOFTGPU_WITHOUT_POLICY(stable_sort)
SOFTGPU_WITHOUT_POLICY(sort_by_key)
SOFTGPU_WITHOUT_POLICY(stable_sort_by_key)
SOFTGPU_WITHOUT_POLICY(is_sorted)
SOFTGPU_WITHOUT_POLICY(reverse)
SOFTGPU_WITHOUT_POLICY(transform_if)
SOFTGPU_WITHOUT_POLICY(replace_copy)
SOFTGPU_WITHOUT_POLICY(replace_copy_if)
SOFTGPU_WITHOUT_POLICY(gather_if)
SOFTGPU_WITHOUT_POLICY(scatter_if)
SOFTGPU_WITHOUT_POLICY(find_if_not)
SOFTGPU_WITHOUT_POLICY(minmax_element)
SOFTGPU_WITHOUT_POLICY(generate_n)
SOFTGPU_WITHOUT_POLICY(swap_ranges)
SOFTGPU_WITHOUT_POLICY(uninitialized_fill)
SOFTGPU_WITHOUT_POLICY(uninitialized_fill_n)
SOFTGPU_WITHOUT_POLICY(uninitialized_copy)
SOFTGPU_WITHOUT_POLICY(uninitialized_copy_n)
SOFTGPU_WITHOUT_POLICY(mismatch)
SOFTGPU_WITHOUT_POLICY(is_sorted_until)

} // namespace thrust

#endif
