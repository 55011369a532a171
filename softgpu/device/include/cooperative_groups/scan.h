/*
 * cooperative_groups/scan.h - in the place of NVIDIA's: inclusive_scan() and exclusive_scan() over a tile or a
 * coalesced group.
 */
#ifndef SOFTGPU_COOPERATIVE_GROUPS_SCAN_H
#define SOFTGPU_COOPERATIVE_GROUPS_SCAN_H
#pragma GCC system_header

#include <cooperative_groups/reduce.h>

namespace cooperative_groups
{
namespace details
{

/* Each lane gets the sum of those before it, with or without itself; the first of an exclusive scan gets T(). */
template <class T, class Operation, bool Inclusive>
inline void
finish_scan(softgpu_meeting *m, const void *context)
{
    const Operation &operation = *static_cast<const Operation *>(context);
    T total = T();
    bool is_first = true;
    softgpu::each_lane(m->arrived, [&](unsigned lane) {
        const T value = softgpu::unpack<T>(m->brought[lane]);
        const T with = is_first ? value : operation(total, value);
        m->result[lane] = softgpu::pack(Inclusive ? with : total);
        total = with;
        is_first = false;
    });
}

} // namespace details

template <class Group, class T, class Operation = plus<T>>
inline T
inclusive_scan(const Group &group, T value, Operation operation = Operation())
{
    const softgpu_gathering how = {"cooperative_groups inclusive_scan", details::finish_scan<T, Operation, true>};
    return softgpu::unpack<T>(softgpu_meet(&how, group.softgpu_mask(), softgpu::pack(value), 0, &operation));
}

template <class Group, class T, class Operation = plus<T>>
inline T
exclusive_scan(const Group &group, T value, Operation operation = Operation())
{
    const softgpu_gathering how = {"cooperative_groups exclusive_scan", details::finish_scan<T, Operation, false>};
    return softgpu::unpack<T>(softgpu_meet(&how, group.softgpu_mask(), softgpu::pack(value), 0, &operation));
}

} // namespace cooperative_groups

#endif
