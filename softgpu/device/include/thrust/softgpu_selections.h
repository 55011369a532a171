/*
 * softgpu_selections.h - Thrust's algorithms that keep a part of a range, or divide it: copy_if, remove, unique,
 * reduce_by_key, partition. Included by softgpu_algorithms.h.
 */
#ifndef SOFTGPU_THRUST_SELECTIONS_H
#define SOFTGPU_THRUST_SELECTIONS_H
#pragma GCC system_header

#include "thrust/softgpu_functional.h"

#include <algorithm>
#include <vector>

namespace thrust
{

template <class P, class It, class Out, class F, softgpu_detail::if_policy<P> = 0>
inline Out
copy_if(const P &policy, It first, It last, Out out, F f)
{
    return out + softgpu_detail::get<ptrdiff_t>(
                     policy,
                     [f](auto begin, auto end, auto to) {
                         return static_cast<ptrdiff_t>(std::copy_if(begin, end, to, f) - to);
                     },
                     first, last, out);
}

template <class P, class It, class Stencil, class Out, class F, softgpu_detail::if_policy<P> = 0>
inline Out
copy_if(const P &policy, It first, It last, Stencil stencil, Out out, F f)
{
    return out + softgpu_detail::get<ptrdiff_t>(
                     policy,
                     [f](auto begin, auto end, auto flag, auto to) {
                         ptrdiff_t kept = 0;
                         for (; begin != end; ++begin, ++flag) {
                             if (f(*flag))
                                 to[kept++] = *begin;
                         }
                         return kept;
                     },
                     first, last, stencil, out);
}

template <class P, class It, class Stencil, class F, softgpu_detail::if_policy<P> = 0>
inline It
remove_if(const P &policy, It first, It last, Stencil stencil, F f)
{
    return ::thrust::copy_if(policy, first, last, stencil, first, [f](const auto &flag) { return !f(flag); });
}

template <class P, class It, class F, softgpu_detail::if_policy<P> = 0>
inline It
remove_if(const P &policy, It first, It last, F f)
{
    return ::thrust::remove_if(policy, first, last, first, f);
}

template <class P, class It, class T, softgpu_detail::if_policy<P> = 0>
inline It
remove(const P &policy, It first, It last, const T &value)
{
    return ::thrust::remove_if(policy, first, last, [value](const auto &x) { return x == value; });
}

template <class P, class It, class Out, class F, softgpu_detail::if_policy<P> = 0>
inline Out
remove_copy_if(const P &policy, It first, It last, Out out, F f)
{
    return ::thrust::copy_if(policy, first, last, out, [f](const auto &x) { return !f(x); });
}

template <class P, class It, class Stencil, class Out, class F, softgpu_detail::if_policy<P> = 0>
inline Out
remove_copy_if(const P &policy, It first, It last, Stencil stencil, Out out, F f)
{
    return ::thrust::copy_if(policy, first, last, stencil, out, [f](const auto &flag) { return !f(flag); });
}

template <class P, class It, class Out, class T, softgpu_detail::if_policy<P> = 0>
inline Out
remove_copy(const P &policy, It first, It last, Out out, const T &value)
{
    return ::thrust::remove_copy_if(policy, first, last, out, [value](const auto &x) { return x == value; });
}

template <class P, class It, class F = equal_to<>, softgpu_detail::if_policy<P> = 0>
inline It
unique(const P &policy, It first, It last, F f = F())
{
    return first + softgpu_detail::get<ptrdiff_t>(
                       policy,
                       [f](auto begin, auto end) { return static_cast<ptrdiff_t>(std::unique(begin, end, f) - begin); },
                       first, last);
}

template <class P, class It, class Out, class F = equal_to<>, softgpu_detail::if_policy<P> = 0>
inline Out
unique_copy(const P &policy, It first, It last, Out out, F f = F())
{
    return out + softgpu_detail::get<ptrdiff_t>(
                     policy,
                     [f](auto begin, auto end, auto to) {
                         return static_cast<ptrdiff_t>(std::unique_copy(begin, end, to, f) - to);
                     },
                     first, last, out);
}

/* Groups of equal neighbours: `join` of what stands so far and the next value is what each leaves. */
template <class P, class K, class V, class OutK, class OutV, class Same = equal_to<>, class F = plus<>,
          softgpu_detail::if_policy<P> = 0>
inline std::pair<OutK, OutV>
reduce_by_key(const P &policy, K first, K last, V values, OutK out_keys, OutV out_values, Same same = Same(),
              F join = F())
{
    const ptrdiff_t count = softgpu_detail::get<ptrdiff_t>(
        policy,
        [same, join](auto begin, auto end, auto value, auto to_key, auto to_value) {
            ptrdiff_t groups = 0;
            while (begin != end) {
                value_of<decltype(begin)> key = *begin;
                value_of<decltype(value)> sum = *value;
                for (++begin, ++value; begin != end && same(key, *begin); ++begin, ++value)
                    sum = join(sum, *value);
                to_key[groups] = key;
                to_value[groups++] = sum;
            }
            return groups;
        },
        first, last, values, out_keys, out_values);
    return {out_keys + count, out_values + count};
}

template <class P, class K, class V, class Same = equal_to<>, softgpu_detail::if_policy<P> = 0>
inline std::pair<K, V>
unique_by_key(const P &policy, K first, K last, V values, Same same = Same())
{
    return ::thrust::reduce_by_key(policy, first, last, values, first, values, same,
                                   [](const auto &kept, const auto &) { return kept; });
}

template <class P, class K, class V, class OutK, class OutV, class Same = equal_to<>, softgpu_detail::if_policy<P> = 0>
inline std::pair<OutK, OutV>
unique_by_key_copy(const P &policy, K first, K last, V values, OutK out_keys, OutV out_values, Same same = Same())
{
    return ::thrust::reduce_by_key(policy, first, last, values, out_keys, out_values, same,
                                   [](const auto &kept, const auto &) { return kept; });
}

/* How many groups of equal neighbours there are. */
template <class P, class It, class Same = equal_to<>, softgpu_detail::if_policy<P> = 0>
inline ptrdiff_t
unique_count(const P &policy, It first, It last, Same same = Same())
{
    return softgpu_detail::get<ptrdiff_t>(
        policy,
        [same](auto begin, auto end) mutable {
            ptrdiff_t groups = begin != end;
            for (; begin != end && begin + 1 != end; ++begin)
                groups += !same(begin[0], begin[1]);
            return groups;
        },
        first, last);
}

/* ---- partitions: what f accepts first. All keep the order, which Thrust promises of the stable ones only. ---- */

template <class P, class It, class Stencil, class F, softgpu_detail::if_policy<P> = 0>
inline It
stable_partition(const P &policy, It first, It last, Stencil stencil, F f)
{
    return first + softgpu_detail::get<ptrdiff_t>(
                       policy,
                       [f](auto begin, auto end, auto flag) mutable {
                           const auto to = begin;
                           ptrdiff_t accepted = 0;
                           std::vector<value_of<decltype(begin)>> others;
                           for (; begin != end; ++begin, ++flag) {
                               if (f(*flag))
                                   to[accepted++] = *begin;
                               else
                                   others.push_back(*begin);
                           }
                           std::copy(others.begin(), others.end(), to + accepted);
                           return accepted;
                       },
                       first, last, stencil);
}

template <class P, class It, class F, softgpu_detail::if_policy<P> = 0>
inline It
stable_partition(const P &policy, It first, It last, F f)
{
    return ::thrust::stable_partition(policy, first, last, first, f);
}

template <class P, class It, class Stencil, class OutTrue, class OutFalse, class F, softgpu_detail::if_policy<P> = 0>
inline std::pair<OutTrue, OutFalse>
stable_partition_copy(const P &policy, It first, It last, Stencil stencil, OutTrue accepted, OutFalse others, F f)
{
    const ptrdiff_t count = softgpu_detail::get<ptrdiff_t>(
        policy,
        [f](auto begin, auto end, auto flag, auto to, auto to_other) mutable {
            ptrdiff_t kept = 0;
            for (ptrdiff_t left = 0; begin != end; ++begin, ++flag) {
                if (f(*flag))
                    to[kept++] = *begin;
                else
                    to_other[left++] = *begin;
            }
            return kept;
        },
        first, last, stencil, accepted, others);
    return {accepted + count, others + (last - first - count)};
}

template <class P, class It, class OutTrue, class OutFalse, class F, softgpu_detail::if_policy<P> = 0>
inline std::pair<OutTrue, OutFalse>
stable_partition_copy(const P &policy, It first, It last, OutTrue accepted, OutFalse others, F f)
{
    return ::thrust::stable_partition_copy(policy, first, last, first, accepted, others, f);
}

template <class P, class It, class... A, softgpu_detail::if_policy<P> = 0>
inline It
partition(const P &policy, It first, It last, A... more)
{
    return ::thrust::stable_partition(policy, first, last, more...);
}

template <class P, class It, class... A, softgpu_detail::if_policy<P> = 0>
inline auto
partition_copy(const P &policy, It first, It last, A... more)
{
    return ::thrust::stable_partition_copy(policy, first, last, more...);
}

template <class P, class It, class F, softgpu_detail::if_policy<P> = 0>
inline bool
is_partitioned(const P &policy, It first, It last, F f)
{
    return softgpu_detail::get<bool>(
        policy, [f](auto begin, auto end) { return std::is_partitioned(begin, end, f); }, first, last);
}

template <class P, class It, class F, softgpu_detail::if_policy<P> = 0>
inline It
partition_point(const P &policy, It first, It last, F f)
{
    return first + softgpu_detail::get<ptrdiff_t>(
                       policy,
                       [f](auto begin, auto end) {
                           return static_cast<ptrdiff_t>(std::partition_point(begin, end, f) - begin);
                       },
                       first, last);
}

SOFTGPU_WITHOUT_POLICY(copy_if)
SOFTGPU_WITHOUT_POLICY(remove_if)
SOFTGPU_WITHOUT_POLICY(remove)
SOFTGPU_WITHOUT_POLICY(remove_copy_if)
SOFTGPU_WITHOUT_POLICY(remove_copy)
SOFTGPU_WITHOUT_POLICY(unique)
SOFTGPU_WITHOUT_POLICY(unique_copy)
SOFTGPU_WITHOUT_POLICY(unique_count)
SOFTGPU_WITHOUT_POLICY(reduce_by_key)
SOFTGPU_WITHOUT_POLICY(unique_by_key)
SOFTGPU_WITHOUT_POLICY(unique_by_key_copy)
SOFTGPU_WITHOUT_POLICY(stable_partition)
SOFTGPU_WITHOUT_POLICY(stable_partition_copy)
SOFTGPU_WITHOUT_POLICY(partition)
SOFTGPU_WITHOUT_POLICY(partition_copy)
SOFTGPU_WITHOUT_POLICY(is_partitioned)
SOFTGPU_WITHOUT_POLICY(partition_point)

} // namespace thrust

#endif
