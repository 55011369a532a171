/*
 * cub/softgpu_collective.cuh - what the collectives of cub/ share: how the lanes of a warp combine their items, the
 * storage of a block, the check that the block has the size that the user's type says. Not for users.
 *
 * Lanes meet (softgpu/block.h) and bring the address of what they have, so items may have any size: while they meet,
 * all of them wait, and the one that comes last may read and write what is on the others' stacks.
 */
#ifndef SOFTGPU_CUB_COLLECTIVE_H
#define SOFTGPU_CUB_COLLECTIVE_H
#pragma GCC system_header

#include "softgpu/warp.h"

#include <cub/version.cuh>

namespace cub
{

/* Bytes of shared memory; without a constructor, so that it can stand in a union. */
struct NullType {
};

namespace softgpu_detail
{

/* What a lane brings to a meeting, and takes from it. */
template <class T> struct slot {
    T item;
    T inclusive;      /* the combination of the items up to this lane's */
    T before;         /* of those before this lane's, if there are any */
    T total;          /* of all, in all lanes */
    bool counts;      /* whether the item takes part; those that do are the first ones */
    bool is_boundary; /* a head or a tail of a segment */

    explicit slot(const T &value, bool takes_part = true, bool boundary = false)
        : item(value), inclusive(value), before(value), total(value), counts(takes_part), is_boundary(boundary)
    {
    }
};

template <class T>
inline slot<T> &
slot_of(softgpu_meeting *m, unsigned lane)
{
    return *reinterpret_cast<slot<T> *>(m->brought[lane].part[0]);
}

/* context: the operation. From the first lane to the last, so it need not commute. */
template <class T, class Operation>
inline void
finish_scan(softgpu_meeting *m, const void *context)
{
    Operation &operation = *static_cast<Operation *>(const_cast<void *>(context));
    const slot<T> *last = nullptr;
    softgpu::each_lane(m->arrived, [&](unsigned lane) {
        slot<T> &mine = slot_of<T>(m, lane);
        if (!mine.counts)
            return;
        if (last != nullptr) {
            mine.before = last->inclusive;
            mine.inclusive = operation(last->inclusive, mine.item);
        }
        last = &mine;
    });
    if (last == nullptr)
        return;
    const T total = last->inclusive;
    softgpu::each_lane(m->arrived, [&](unsigned lane) { slot_of<T>(m, lane).total = total; });
}

/* total: of the lanes from this one to the end of its segment. */
template <class T, class Operation, bool Heads>
inline void
finish_segments(softgpu_meeting *m, const void *context)
{
    Operation &operation = *static_cast<Operation *>(const_cast<void *>(context));
    const slot<T> *next = nullptr;
    for (unsigned rest = m->arrived; rest != 0;) {
        const unsigned lane = 31 - static_cast<unsigned>(__builtin_clz(rest));
        rest &= ~(1u << lane);
        slot<T> &mine = slot_of<T>(m, lane);
        const bool ends = next == nullptr || (Heads ? next->is_boundary : mine.is_boundary);
        if (!ends)
            mine.total = operation(mine.item, next->total);
        next = &mine;
    }
}

template <class T>
inline void
meet(const softgpu_gathering &how, unsigned mask, slot<T> *mine, const void *operation)
{
    const softgpu_word word = {{reinterpret_cast<uint64_t>(mine), 0}};
    softgpu_meet(&how, mask, word, 0, operation);
}

/* The lanes of this thread's logical warp: groups of `Threads` lanes in a row. */
template <int Threads>
inline unsigned
lanes_of_warp()
{
    static_assert(Threads >= 1 && Threads <= 32, "a logical warp has 1 to 32 threads");
    const unsigned all = Threads == 32 ? ~0u : (1u << Threads % 32) - 1;
    return all << (softgpu::lane() / Threads * Threads);
}

template <int Threads, class T, class Operation>
inline void
warp_scan(const char *name, slot<T> *mine, Operation *operation)
{
    const softgpu_gathering how = {name, finish_scan<T, Operation>};
    meet(how, lanes_of_warp<Threads>(), mine, operation);
}

/* ---- blocks ---- */

/* Room for `Count` items, as bytes: nothing to construct. */
template <class T, int Count> struct room {
    alignas(T) unsigned char bytes[sizeof(T) * Count];

    T &at(unsigned i)
    {
        return reinterpret_cast<T *>(bytes)[i];
    }
    void set(unsigned i, const T &value)
    {
        new (static_cast<void *>(bytes + sizeof(T) * i)) T(value);
    }
};

template <int Threads> struct warps_in {
    enum { count = (Threads + 31) / 32 };
};

/* A type that says 128 threads, in a block of 256, has no right answer. */
template <int X, int Y, int Z>
inline void
check_block(const char *name)
{
    if (::softgpu_here->block_dim.x != X || ::softgpu_here->block_dim.y != Y || ::softgpu_here->block_dim.z != Z)
        softgpu_kernel_fatal("%s for a block of %dx%dx%d threads is called in one of %ux%ux%u", name, X, Y, Z,
                             ::softgpu_here->block_dim.x, ::softgpu_here->block_dim.y, ::softgpu_here->block_dim.z);
}

/* The storage of a collective that was made without one. */
template <class Collective, class Storage> struct private_storage {
    Storage storage;
};

template <class Collective, class Storage>
inline Storage &
own_storage()
{
    return softgpu::shared<private_storage<Collective, Storage>, ::softgpu_kernel>().storage;
}

template <class T, int Items, class Operation>
inline T
fold(T (&items)[Items], Operation &operation)
{
    T total = items[0];
    for (int i = 1; i < Items; ++i)
        total = operation(total, items[i]);
    return total;
}

} // namespace softgpu_detail

inline unsigned
LaneId()
{
    return softgpu::lane();
}

} // namespace cub

#endif
