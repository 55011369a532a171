/*
 * softgpu/warp.h - the lanes of a warp exchange values: CUDA C++ Programming Guide, "Warp Vote", "Warp Match", "Warp
 * Reduce" and "Warp Shuffle Functions". Included by softgpu_prelude.h.
 *
 * Each is a gathering (block.h): lanes bring up to 16 bytes, the last one computes what all get. A shuffle from a lane
 * that takes no part gives 0; CUDA leaves that undefined, and public kernels add it up.
 */
#ifndef SOFTGPU_WARP_H
#define SOFTGPU_WARP_H
#pragma GCC system_header

#include "softgpu/thread.h"

namespace softgpu
{

/* This thread's lane in its warp. */
inline unsigned
lane()
{
    return ::softgpu::self().number % 32;
}

template <class T>
inline softgpu_word
pack(const T &value)
{
    static_assert(sizeof(T) <= sizeof(softgpu_word), "lanes of a warp can exchange values of up to 16 bytes");
    softgpu_word word = {{0, 0}};
    __builtin_memcpy(&word, &value, sizeof(T));
    return word;
}

template <class T>
inline T
unpack(const softgpu_word &word)
{
    typename std::remove_const<T>::type value;
    __builtin_memcpy(&value, &word, sizeof(T));
    return value;
}

/* Calls f(lane) for each lane of the mask. */
template <class F>
inline void
each_lane(unsigned mask, F f)
{
    for (; mask != 0; mask &= mask - 1)
        f(static_cast<unsigned>(__builtin_ctz(mask)));
}

/* ---- finishing touches of gatherings ---- */

inline void
finish_nothing(softgpu_meeting *, const void *)
{
}

/* argument: the lane to read from. */
inline void
finish_shuffle(softgpu_meeting *m, const void *)
{
    if (m->arrived == ~0u) {
        for (unsigned lane = 0; lane < 32; ++lane)
            m->result[lane] = m->brought[m->argument[lane]];
        return;
    }
    each_lane(m->arrived, [m](unsigned lane) {
        const unsigned source = static_cast<unsigned>(m->argument[lane]);
        const softgpu_word nothing = {{0, 0}};
        m->result[lane] = (m->arrived >> source & 1) != 0 ? m->brought[source] : nothing;
    });
}

/* part[0]: a predicate; the result is the ballot. */
inline void
finish_ballot(softgpu_meeting *m, const void *)
{
    unsigned ballot = 0;
    each_lane(m->arrived,
              [&](unsigned lane) { ballot |= static_cast<unsigned>(m->brought[lane].part[0] != 0) << lane; });
    each_lane(m->arrived, [&](unsigned lane) { m->result[lane].part[0] = ballot; });
}

/* The lanes that brought the same 16 bytes. */
inline void
finish_match(softgpu_meeting *m, const void *)
{
    each_lane(m->arrived, [m](unsigned lane) {
        unsigned same = 0;
        each_lane(m->arrived, [&](unsigned other) {
            same |= static_cast<unsigned>(m->brought[lane].part[0] == m->brought[other].part[0]) << other;
        });
        m->result[lane].part[0] = same;
    });
}

/* All lanes that came, if they brought the same; else none. */
inline void
finish_match_all(softgpu_meeting *m, const void *)
{
    const uint64_t first = m->brought[__builtin_ctz(m->arrived)].part[0];
    bool same = true;
    each_lane(m->arrived, [&](unsigned lane) { same = same && m->brought[lane].part[0] == first; });
    each_lane(m->arrived, [&](unsigned lane) { m->result[lane].part[0] = same ? m->arrived : 0; });
}

/* context: the binary operation. Lanes in ascending order. */
template <class T, class Operation>
inline void
finish_reduce(softgpu_meeting *m, const void *context)
{
    const Operation &operation = *static_cast<const Operation *>(context);
    const unsigned first = static_cast<unsigned>(__builtin_ctz(m->arrived));
    T total = unpack<T>(m->brought[first]);
    each_lane(m->arrived & (m->arrived - 1),
              [&](unsigned lane) { total = operation(total, unpack<T>(m->brought[lane])); });
    const softgpu_word word = pack(total);
    each_lane(m->arrived, [&](unsigned lane) { m->result[lane] = word; });
}

template <class T>
inline T
shuffle(const softgpu_gathering &how, unsigned mask, T value, unsigned source)
{
    return unpack<T>(softgpu_meet(&how, mask, pack(value), static_cast<int>(source), nullptr));
}

inline unsigned
vote(const softgpu_gathering &how, unsigned mask, int predicate)
{
    const softgpu_word word = {{static_cast<uint64_t>(predicate != 0), 0}};
    return static_cast<unsigned>(softgpu_meet(&how, mask, word, 0, nullptr).part[0]);
}

/* Reduces over the lanes of the mask; all of them get the result. */
template <class T, class Operation>
inline T
reduce_lanes(const char *name, unsigned mask, T value, const Operation &operation)
{
    const softgpu_gathering how = {name, finish_reduce<T, Operation>};
    return unpack<T>(softgpu_meet(&how, mask, pack(value), 0, &operation));
}

} // namespace softgpu

/* ---- synchronisation and votes ---- */

SOFTGPU_INLINE void
__syncwarp(unsigned mask = 0xffffffffu)
{
    static const softgpu_gathering how = {"__syncwarp", softgpu::finish_nothing};
    const softgpu_word nothing = {{0, 0}};
    softgpu_meet(&how, mask, nothing, 0, nullptr);
}

SOFTGPU_INLINE unsigned
__ballot_sync(unsigned mask, int predicate)
{
    static const softgpu_gathering how = {"__ballot_sync", softgpu::finish_ballot};
    return softgpu::vote(how, mask, predicate);
}

SOFTGPU_INLINE int
__any_sync(unsigned mask, int predicate)
{
    static const softgpu_gathering how = {"__any_sync", softgpu::finish_ballot};
    return softgpu::vote(how, mask, predicate) != 0;
}

SOFTGPU_INLINE int
__all_sync(unsigned mask, int predicate)
{
    static const softgpu_gathering how = {"__all_sync", softgpu::finish_ballot};
    return softgpu::vote(how, mask, predicate == 0) == 0;
}

/* A place of its own for each call, by which the lanes that are together are recognised. */
#define __activemask()                     \
    ([]() -> unsigned {                    \
        static const char site = 0;        \
        return softgpu_active_mask(&site); \
    }())

namespace softgpu
{
/* The value, which the caller has computed, once all lanes that are there have come to `meet`. See lockstep.c. */
template <class T, class F>
SOFTGPU_INLINE T
together(T value, F meet)
{
    meet();
    return value;
}

/* What softgpu/cc/races.c writes around a place that changes, and around what an atomic function is called with. */
template <class T>
SOFTGPU_INLINE T &&
changed(T &&place, const char *file, unsigned line)
{
    softgpu_changed(const_cast<const void *>(reinterpret_cast<const volatile void *>(&place)), sizeof(place), file,
                    line);
    return static_cast<T &&>(place);
}
template <class T>
SOFTGPU_INLINE T
ordered(T what)
{
    softgpu_ordered();
    return what;
}
} // namespace softgpu

template <class T>
SOFTGPU_INLINE unsigned
__match_any_sync(unsigned mask, T value)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "__match_any_sync compares values of 4 or 8 bytes");
    static const softgpu_gathering how = {"__match_any_sync", softgpu::finish_match};
    return static_cast<unsigned>(softgpu_meet(&how, mask, softgpu::pack(value), 0, nullptr).part[0]);
}

template <class T>
SOFTGPU_INLINE unsigned
__match_all_sync(unsigned mask, T value, int *all)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "__match_all_sync compares values of 4 or 8 bytes");
    static const softgpu_gathering how = {"__match_all_sync", softgpu::finish_match_all};
    const unsigned same = static_cast<unsigned>(softgpu_meet(&how, mask, softgpu::pack(value), 0, nullptr).part[0]);
    *all = same != 0;
    return same;
}

/* ---- shuffles ---- */

template <class T>
SOFTGPU_INLINE T
__shfl_sync(unsigned mask, T value, int source, int width = warpSize)
{
    static const softgpu_gathering how = {"__shfl_sync", softgpu::finish_shuffle};
    const unsigned lane = softgpu::lane(), segment = static_cast<unsigned>(width - 1);
    return softgpu::shuffle(how, mask, value, (lane & ~segment) | (static_cast<unsigned>(source) & segment));
}

template <class T>
SOFTGPU_INLINE T
__shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize)
{
    static const softgpu_gathering how = {"__shfl_up_sync", softgpu::finish_shuffle};
    const unsigned lane = softgpu::lane(), segment = static_cast<unsigned>(width - 1);
    return softgpu::shuffle(how, mask, value, (lane & segment) >= delta ? lane - delta : lane);
}

template <class T>
SOFTGPU_INLINE T
__shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize)
{
    static const softgpu_gathering how = {"__shfl_down_sync", softgpu::finish_shuffle};
    const unsigned lane = softgpu::lane(), segment = static_cast<unsigned>(width - 1);
    return softgpu::shuffle(how, mask, value,
                            delta <= segment && (lane & segment) + delta <= segment ? lane + delta : lane);
}

/* Lanes of earlier segments can be read, those of later ones not. */
template <class T>
SOFTGPU_INLINE T
__shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize)
{
    static const softgpu_gathering how = {"__shfl_xor_sync", softgpu::finish_shuffle};
    const unsigned lane = softgpu::lane(), segment = static_cast<unsigned>(width - 1);
    const unsigned source = (lane ^ static_cast<unsigned>(lane_mask)) & 31;
    return softgpu::shuffle(how, mask, value, source <= (lane | segment) ? source : lane);
}

/* ---- reductions ---- */

#define SOFTGPU_REDUCE(name, type, expression)                                                               \
    SOFTGPU_INLINE type name(unsigned mask, type value)                                                      \
    {                                                                                                        \
        return softgpu::reduce_lanes(#name, mask, value, [](type a, type b) -> type { return expression; }); \
    }
SOFTGPU_REDUCE(__reduce_add_sync, unsigned, a + b)
SOFTGPU_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
SOFTGPU_REDUCE(__reduce_max_sync, unsigned, a < b ? b : a)
SOFTGPU_REDUCE(__reduce_add_sync, int, static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
SOFTGPU_REDUCE(__reduce_min_sync, int, a < b ? a : b)
SOFTGPU_REDUCE(__reduce_max_sync, int, a < b ? b : a)
SOFTGPU_REDUCE(__reduce_and_sync, unsigned, a &b)
SOFTGPU_REDUCE(__reduce_or_sync, unsigned, a | b)
SOFTGPU_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef SOFTGPU_REDUCE

#endif
