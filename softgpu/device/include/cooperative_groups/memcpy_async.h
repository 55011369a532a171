/*
 * cooperative_groups/memcpy_async.h - in the place of NVIDIA's: the threads of a group copy, each its part at once, and
 * wait for each other. CUDA C++ Programming Guide, "memcpy_async" and "wait and wait_prior".
 */
#ifndef SOFTGPU_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H
#define SOFTGPU_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H
#pragma GCC system_header

#include <cooperative_groups.h>

#include "softgpu/phases.h"

namespace cooperative_groups
{

template <class Group, class T, class Size>
inline void
memcpy_async(const Group &group, T *to, const T *from, const Size &bytes)
{
    softgpu::copy_share(group, to, from, bytes);
}

/* In elements, where each side says how many it has. */
template <class Group, class T, class ToSize, class FromSize>
inline void
memcpy_async(const Group &group, T *to, const ToSize &to_count, const T *from, const FromSize &from_count)
{
    const size_t there = to_count, here = from_count;
    softgpu::copy_share(group, to, from, sizeof(T) * (here < there ? here : there));
}

template <class Group>
inline void
wait(const Group &group)
{
    group.sync();
}

template <unsigned Stages, class Group>
inline void
wait_prior(const Group &group)
{
    group.sync();
}

} // namespace cooperative_groups

#endif
