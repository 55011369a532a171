/*
 * softgpu_sorted.h - Thrust's algorithms on sorted ranges: binary searches, merges, sets. Included by
 * softgpu_algorithms.h.
 */
#ifndef SOFTGPU_THRUST_SORTED_H
#define SOFTGPU_THRUST_SORTED_H
#pragma GCC system_header

#include "thrust/softgpu_functional.h"

#include <algorithm>

namespace thrust
{

/* ---- searches: for one value; for each value of a range, with indices as results (binary_search: bools) ---- */

#define SOFTGPU_BOUND(name)                                                                                   \
    template <class P, class It, class T, class F = less<>, softgpu_detail::if_policy<P> = 0>                 \
    inline It name(const P &policy, It first, It last, const T &value, F f = F())                             \
    {                                                                                                         \
        return first + softgpu_detail::get<ptrdiff_t>(                                                        \
                           policy,                                                                            \
                           [value, f](auto begin, auto end) {                                                 \
                               return static_cast<ptrdiff_t>(std::name(begin, end, value, f) - begin);        \
                           },                                                                                 \
                           first, last);                                                                      \
    }                                                                                                         \
    template <class P, class It, class Values, class Out, class F = less<>, softgpu_detail::if_policy<P> = 0> \
    inline Out name(const P &policy, It first, It last, Values values, Values values_end, Out out, F f = F()) \
    {                                                                                                         \
        softgpu_detail::run(                                                                                  \
            policy,                                                                                           \
            [f](auto begin, auto end, auto value, auto value_end, auto to) {                                  \
                for (; value != value_end; ++value, ++to) {                                                   \
                    const value_of<decltype(value)> wanted = *value;                                          \
                    *to = static_cast<value_of<decltype(to)>>(std::name(begin, end, wanted, f) - begin);      \
                }                                                                                             \
            },                                                                                                \
            first, last, values, values_end, out);                                                            \
        return out + (values_end - values);                                                                   \
    }
SOFTGPU_BOUND(lower_bound)
SOFTGPU_BOUND(upper_bound)
#undef SOFTGPU_BOUND

template <class P, class It, class T, class F = less<>, softgpu_detail::if_policy<P> = 0>
inline bool
binary_search(const P &policy, It first, It last, const T &value, F f = F())
{
    return softgpu_detail::get<bool>(
        policy, [value, f](auto begin, auto end) { return std::binary_search(begin, end, value, f); }, first, last);
}

template <class P, class It, class Values, class Out, class F = less<>, softgpu_detail::if_policy<P> = 0>
inline Out
binary_search(const P &policy, It first, It last, Values values, Values values_end, Out out, F f = F())
{
    softgpu_detail::run(
        policy,
        [f](auto begin, auto end, auto value, auto value_end, auto to) {
            for (; value != value_end; ++value, ++to) {
                const value_of<decltype(value)> wanted = *value;
                *to = static_cast<value_of<decltype(to)>>(std::binary_search(begin, end, wanted, f));
            }
        },
        first, last, values, values_end, out);
    return out + (values_end - values);
}

template <class P, class It, class T, class F = less<>, softgpu_detail::if_policy<P> = 0>
inline std::pair<It, It>
equal_range(const P &policy, It first, It last, const T &value, F f = F())
{
    return {::thrust::lower_bound(policy, first, last, value, f), ::thrust::upper_bound(policy, first, last, value, f)};
}

/* ---- of two ranges, one: of equal elements those of the first range come first ---- */

#define SOFTGPU_OF_TWO(name)                                                                                       \
    template <class P, class A, class B, class Out, class F = less<>, softgpu_detail::if_policy<P> = 0>            \
    inline Out name(const P &policy, A first, A last, B other, B other_end, Out out, F f = F())                    \
    {                                                                                                              \
        return out + softgpu_detail::get<ptrdiff_t>(                                                               \
                         policy,                                                                                   \
                         [f](auto begin, auto end, auto second, auto second_end, auto to) {                        \
                             return static_cast<ptrdiff_t>(std::name(begin, end, second, second_end, to, f) - to); \
                         },                                                                                        \
                         first, last, other, other_end, out);                                                      \
    }
SOFTGPU_OF_TWO(merge)
SOFTGPU_OF_TWO(set_union)
SOFTGPU_OF_TWO(set_intersection)
SOFTGPU_OF_TWO(set_difference)
SOFTGPU_OF_TWO(set_symmetric_difference)
#undef SOFTGPU_OF_TWO

template <class P, class KA, class KB, class VA, class VB, class OutK, class OutV, class F = less<>,
          softgpu_detail::if_policy<P> = 0>
inline std::pair<OutK, OutV>
merge_by_key(const P &policy, KA first, KA last, KB other, KB other_end, VA values, VB other_values, OutK out_keys,
             OutV out_values, F f = F())
{
    softgpu_detail::run(
        policy,
        [f](auto key, auto key_end, auto second, auto second_end, auto value, auto second_value, auto to_key,
            auto to_value) mutable {
            while (key != key_end || second != second_end) {
                const bool is_second = key == key_end || (second != second_end && f(*second, *key));
                if (is_second) {
                    *to_key = *second++;
                    *to_value = *second_value++;
                } else {
                    *to_key = *key++;
                    *to_value = *value++;
                }
                ++to_key;
                ++to_value;
            }
        },
        first, last, other, other_end, values, other_values, out_keys, out_values);
    const ptrdiff_t count = (last - first) + (other_end - other);
    return {out_keys + count, out_values + count};
}

SOFTGPU_WITHOUT_POLICY(lower_bound)
SOFTGPU_WITHOUT_POLICY(upper_bound)
SOFTGPU_WITHOUT_POLICY(binary_search)
SOFTGPU_WITHOUT_POLICY(equal_range)
SOFTGPU_WITHOUT_POLICY(merge)
SOFTGPU_WITHOUT_POLICY(merge_by_key)
SOFTGPU_WITHOUT_POLICY(set_union)
SOFTGPU_WITHOUT_POLICY(set_intersection)
SOFTGPU_WITHOUT_POLICY(set_difference)
SOFTGPU_WITHOUT_POLICY(set_symmetric_difference)

} // namespace thrust

#endif
