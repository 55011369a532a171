/*
 * softgpu_scans.h - Thrust's scans, by key also, and differences of neighbours. Included by softgpu_algorithms.h.
 */
#ifndef SOFTGPU_THRUST_SCANS_H
#define SOFTGPU_THRUST_SCANS_H
#pragma GCC system_header

#include "thrust/softgpu_functional.h"

#include <numeric>

namespace thrust
{

template <class P, class It, class Out, class F = plus<>, softgpu_detail::if_policy<P> = 0>
inline Out
inclusive_scan(const P &policy, It first, It last, Out out, F f = F())
{
    softgpu_detail::run(
        policy, [f](auto begin, auto end, auto to) { std::inclusive_scan(begin, end, to, f); }, first, last, out);
    return out + (last - first);
}

template <class P, class It, class Out, class T = value_of<It>, class F = plus<>, softgpu_detail::if_policy<P> = 0>
inline Out
exclusive_scan(const P &policy, It first, It last, Out out, T init = T(), F f = F())
{
    softgpu_detail::run(
        policy, [init, f](auto begin, auto end, auto to) { std::exclusive_scan(begin, end, to, init, f); }, first, last,
        out);
    return out + (last - first);
}

template <class P, class It, class Out, class U, class F, softgpu_detail::if_policy<P> = 0>
inline Out
transform_inclusive_scan(const P &policy, It first, It last, Out out, U unary, F f)
{
    softgpu_detail::run(
        policy, [unary, f](auto begin, auto end, auto to) { std::transform_inclusive_scan(begin, end, to, f, unary); },
        first, last, out);
    return out + (last - first);
}

template <class P, class It, class Out, class U, class T, class F, softgpu_detail::if_policy<P> = 0>
inline Out
transform_exclusive_scan(const P &policy, It first, It last, Out out, U unary, T init, F f)
{
    softgpu_detail::run(
        policy,
        [unary, init, f](auto begin, auto end, auto to) {
            std::transform_exclusive_scan(begin, end, to, init, f, unary);
        },
        first, last, out);
    return out + (last - first);
}

template <class P, class It, class Out, class F = minus<>, softgpu_detail::if_policy<P> = 0>
inline Out
adjacent_difference(const P &policy, It first, It last, Out out, F f = F())
{
    softgpu_detail::run(
        policy, [f](auto begin, auto end, auto to) { std::adjacent_difference(begin, end, to, f); }, first, last, out);
    return out + (last - first);
}

/* A scan that begins anew with each group of equal neighbours. */
#define SOFTGPU_SCAN_BY_KEY(sum_before, init)                                 \
    softgpu_detail::run(                                                      \
        policy,                                                               \
        [=](auto begin, auto end, auto value, auto to) {                      \
            while (begin != end) {                                            \
                value_of<decltype(begin)> key = *begin;                       \
                auto sum = init;                                              \
                bool is_first = true;                                         \
                do {                                                          \
                    const value_of<decltype(value)> next = *value;            \
                    if (sum_before)                                           \
                        *to = sum;                                            \
                    sum = is_first && !(sum_before) ? next : join(sum, next); \
                    if (!(sum_before))                                        \
                        *to = sum;                                            \
                    is_first = false;                                         \
                    ++begin, ++value, ++to;                                   \
                } while (begin != end && same(key, *begin));                  \
            }                                                                 \
        },                                                                    \
        first, last, values, out);                                            \
    return out + (last - first)

template <class P, class K, class V, class Out, class Same = equal_to<>, class F = plus<>,
          softgpu_detail::if_policy<P> = 0>
inline Out
inclusive_scan_by_key(const P &policy, K first, K last, V values, Out out, Same same = Same(), F join = F())
{
    SOFTGPU_SCAN_BY_KEY(false, static_cast<value_of<decltype(value)>>(*value));
}

template <class P, class K, class V, class Out, class T = value_of<V>, class Same = equal_to<>, class F = plus<>,
          softgpu_detail::if_policy<P> = 0>
inline Out
exclusive_scan_by_key(const P &policy, K first, K last, V values, Out out, T init = T(), Same same = Same(),
                      F join = F())
{
    SOFTGPU_SCAN_BY_KEY(true, init);
}
#undef SOFTGPU_SCAN_BY_KEY

SOFTGPU_WITHOUT_POLICY(inclusive_scan)
SOFTGPU_WITHOUT_POLICY(exclusive_scan)
SOFTGPU_WITHOUT_POLICY(inclusive_scan_by_key)
SOFTGPU_WITHOUT_POLICY(exclusive_scan_by_key)
SOFTGPU_WITHOUT_POLICY(transform_inclusive_scan)
SOFTGPU_WITHOUT_POLICY(transform_exclusive_scan)
SOFTGPU_WITHOUT_POLICY(adjacent_difference)

} // namespace thrust

#endif
