/*
 * cooperative_groups/reduce.h - in the place of NVIDIA's: reduce() over a tile or a coalesced group. All threads get
 * the result.
 */
#ifndef SOFTGPU_COOPERATIVE_GROUPS_REDUCE_H
#define SOFTGPU_COOPERATIVE_GROUPS_REDUCE_H
#pragma GCC system_header

#include <cooperative_groups.h>

namespace cooperative_groups
{

template <class T> struct plus {
    T operator()(T a, T b) const
    {
        return a + b;
    }
};

template <class T> struct less {
    T operator()(T a, T b) const
    {
        return b < a ? b : a;
    }
};

template <class T> struct greater {
    T operator()(T a, T b) const
    {
        return a < b ? b : a;
    }
};

template <class T> struct bit_and {
    T operator()(T a, T b) const
    {
        return a & b;
    }
};

template <class T> struct bit_or {
    T operator()(T a, T b) const
    {
        return a | b;
    }
};

template <class T> struct bit_xor {
    T operator()(T a, T b) const
    {
        return a ^ b;
    }
};

/* The operation is applied to lanes in ascending order. */
template <class Group, class T, class Operation>
inline T
reduce(const Group &group, T value, Operation operation)
{
    return softgpu::reduce_lanes("cooperative_groups reduce", group.softgpu_mask(), value, operation);
}

} // namespace cooperative_groups

#endif
