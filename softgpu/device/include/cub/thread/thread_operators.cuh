/*
 * cub/thread/thread_operators.cuh - in the place of NVIDIA's: operations for reductions and scans. CUB documentation,
 * "Thread-level primitives". Sum, Max and Min left CUB with CUDA 13; programs written for earlier versions name them.
 */
#ifndef SOFTGPU_CUB_THREAD_OPERATORS_H
#define SOFTGPU_CUB_THREAD_OPERATORS_H
#pragma GCC system_header

#include <cub/util_type.cuh>

#include <type_traits>

namespace cub
{

struct Sum {
    template <class T, class U> auto operator()(const T &a, const U &b) const -> decltype(a + b)
    {
        return a + b;
    }
};

struct Difference {
    template <class T> T operator()(const T &a, const T &b) const
    {
        return static_cast<T>(a - b);
    }
};

struct Max {
    template <class T, class U> typename std::common_type<T, U>::type operator()(const T &a, const U &b) const
    {
        return a < b ? b : a;
    }
};

struct Min {
    template <class T, class U> typename std::common_type<T, U>::type operator()(const T &a, const U &b) const
    {
        return b < a ? b : a;
    }
};

struct Equality {
    template <class T> bool operator()(const T &a, const T &b) const
    {
        return a == b;
    }
};

/* Of equal values, the one with the lower key. */
struct ArgMax {
    template <class Key, class Value>
    KeyValuePair<Key, Value> operator()(const KeyValuePair<Key, Value> &a, const KeyValuePair<Key, Value> &b) const
    {
        return a.value < b.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};

struct ArgMin {
    template <class Key, class Value>
    KeyValuePair<Key, Value> operator()(const KeyValuePair<Key, Value> &a, const KeyValuePair<Key, Value> &b) const
    {
        return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};

} // namespace cub

#endif
