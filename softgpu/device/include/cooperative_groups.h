/*
 * cooperative_groups.h - in the place of NVIDIA's: thread blocks, tiles of a warp, coalesced groups. CUDA C++
 * Programming Guide, "Cooperative Groups".
 */
#ifndef SOFTGPU_COOPERATIVE_GROUPS_H
#define SOFTGPU_COOPERATIVE_GROUPS_H
#pragma GCC system_header

#include "softgpu/warp.h"

namespace cooperative_groups
{

namespace details
{

inline unsigned
rank_in_block()
{
    return ::softgpu::self().number;
}

inline unsigned
block_threads()
{
    return ::softgpu_here->block_dim.x * ::softgpu_here->block_dim.y * ::softgpu_here->block_dim.z;
}

} // namespace details

/* What every group within a warp can do; `mask` has the lanes of the group. */
class warp_group
{
  protected:
    unsigned mask;

    explicit warp_group(unsigned lanes) : mask(lanes)
    {
    }

    /* The lane with this rank in the group. */
    unsigned lane_of(unsigned rank) const
    {
        unsigned rest = mask;
        for (; rank > 0; --rank)
            rest &= rest - 1;
        return rest != 0 ? static_cast<unsigned>(__builtin_ctz(rest)) : 32;
    }

  public:
    typedef unsigned size_type;

    unsigned softgpu_mask() const
    {
        return mask;
    }
    void sync() const
    {
        __syncwarp(mask);
    }
    unsigned thread_rank() const
    {
        return static_cast<unsigned>(__popc(mask & ((1u << softgpu::lane()) - 1)));
    }
    unsigned num_threads() const
    {
        return static_cast<unsigned>(__popc(mask));
    }
    unsigned size() const
    {
        return num_threads();
    }
    int any(int predicate) const
    {
        return __any_sync(mask, predicate);
    }
    int all(int predicate) const
    {
        return __all_sync(mask, predicate);
    }

    /* In terms of ranks: bit r is the thread of rank r. */
    unsigned ballot(int predicate) const
    {
        return to_ranks(__ballot_sync(mask, predicate));
    }
    template <class T> unsigned match_any(T value) const
    {
        return to_ranks(__match_any_sync(mask, value));
    }
    template <class T> unsigned match_all(T value, int &all) const
    {
        return to_ranks(__match_all_sync(mask, value, &all));
    }

    template <class T> T shfl(T value, unsigned rank) const
    {
        static const softgpu_gathering how = {"cooperative_groups shfl", softgpu::finish_shuffle};
        return softgpu::shuffle(how, mask, value, lane_of(rank % num_threads()));
    }
    template <class T> T shfl_up(T value, unsigned delta) const
    {
        static const softgpu_gathering how = {"cooperative_groups shfl_up", softgpu::finish_shuffle};
        const unsigned rank = thread_rank();
        return softgpu::shuffle(how, mask, value, lane_of(rank >= delta ? rank - delta : rank));
    }
    template <class T> T shfl_down(T value, unsigned delta) const
    {
        static const softgpu_gathering how = {"cooperative_groups shfl_down", softgpu::finish_shuffle};
        const unsigned rank = thread_rank();
        return softgpu::shuffle(how, mask, value, lane_of(delta < num_threads() - rank ? rank + delta : rank));
    }
    template <class T> T shfl_xor(T value, unsigned ranks) const
    {
        static const softgpu_gathering how = {"cooperative_groups shfl_xor", softgpu::finish_shuffle};
        const unsigned rank = thread_rank(), other = rank ^ ranks;
        return softgpu::shuffle(how, mask, value, lane_of(other < num_threads() ? other : rank));
    }

  private:
    unsigned to_ranks(unsigned lanes) const
    {
        unsigned ranks = 0, rank = 0;
        for (unsigned rest = mask; rest != 0; rest &= rest - 1, ++rank)
            ranks |= (lanes >> __builtin_ctz(rest) & 1u) << rank;
        return ranks;
    }
};

/* ---- the block ---- */

class thread_block
{
  public:
    typedef unsigned size_type;

    static void sync()
    {
        __syncthreads();
    }
    /* In two halves: what all have done before they arrived, each sees after its wait. */
    struct arrival_token {
    };
    static arrival_token barrier_arrive()
    {
        return arrival_token();
    }
    static void barrier_wait(arrival_token &&)
    {
        __syncthreads();
    }
    static unsigned thread_rank()
    {
        return details::rank_in_block();
    }
    static unsigned num_threads()
    {
        return details::block_threads();
    }
    static unsigned size()
    {
        return num_threads();
    }
    static ::dim3 group_index()
    {
        return ::dim3(::softgpu_here->block.x, ::softgpu_here->block.y, ::softgpu_here->block.z);
    }
    static ::dim3 thread_index()
    {
        return ::dim3(::softgpu_here->thread.x, ::softgpu_here->thread.y, ::softgpu_here->thread.z);
    }
    static ::dim3 group_dim()
    {
        return ::softgpu_here->block_dim;
    }
    static ::dim3 dim_threads()
    {
        return ::softgpu_here->block_dim;
    }
};

inline thread_block
this_thread_block()
{
    return thread_block();
}

/* ---- tiles of a warp ---- */

template <unsigned Size, class Parent = void> class thread_block_tile : public warp_group
{
    static_assert(Size != 0 && (Size & (Size - 1)) == 0, "the size of a tile is a power of two");
    static_assert(Size <= 32, "softgpu-cc does not support tiles of more than 32 threads");

  public:
    /* Lanes beyond the end of the block do not exist. */
    explicit thread_block_tile(unsigned parent_threads) : warp_group(lanes_here()), parent_threads_(parent_threads)
    {
    }
    template <class Other>
    thread_block_tile(const thread_block_tile<Size, Other> &other)
        : warp_group(other.softgpu_mask()), parent_threads_(other.softgpu_parent_threads())
    {
    }
    static unsigned thread_rank()
    {
        return details::rank_in_block() % Size;
    }
    static constexpr unsigned num_threads()
    {
        return Size;
    }
    static constexpr unsigned size()
    {
        return Size;
    }
    unsigned meta_group_rank() const
    {
        return details::rank_in_block() % parent_threads_ / Size;
    }
    unsigned meta_group_size() const
    {
        return (parent_threads_ + Size - 1) / Size;
    }
    unsigned softgpu_parent_threads() const
    {
        return parent_threads_;
    }

  private:
    unsigned parent_threads_; /* of the block or the tile that was partitioned */

    static unsigned lanes_here()
    {
        const unsigned all = Size == 32 ? 0xffffffffu : (1u << Size % 32) - 1;
        return all << (details::rank_in_block() % 32 / Size * Size);
    }
};

template <unsigned Size, class Parent>
inline thread_block_tile<Size, Parent>
tiled_partition(const Parent &parent)
{
    return thread_block_tile<Size, Parent>(parent.num_threads());
}

/* ---- the threads that are here together ---- */

class coalesced_group : public warp_group
{
  public:
    explicit coalesced_group(unsigned lanes, unsigned meta_rank = 0, unsigned meta_size = 1)
        : warp_group(lanes), meta_rank_(meta_rank), meta_size_(meta_size)
    {
    }
    unsigned meta_group_rank() const
    {
        return meta_rank_;
    }
    unsigned meta_group_size() const
    {
        return meta_size_;
    }

  private:
    unsigned meta_rank_, meta_size_; /* among the groups of a partition */
};

/* The threads of a group that have the same label; groups have the order of their first lanes. */
template <class Group, class Label>
inline coalesced_group
labeled_partition(const Group &group, Label label)
{
    const unsigned all = group.softgpu_mask(), lanes = __match_any_sync(all, label), first = lanes & -lanes;
    const unsigned leaders = __ballot_sync(all, softgpu::lane() == static_cast<unsigned>(__builtin_ctz(lanes)));
    return coalesced_group(lanes, static_cast<unsigned>(__popc(leaders & (first - 1))),
                           static_cast<unsigned>(__popc(leaders)));
}

/* The same for a condition: the group of those where it does not hold comes first. */
template <class Group>
inline coalesced_group
binary_partition(const Group &group, bool condition)
{
    const unsigned all = group.softgpu_mask(), holds = __ballot_sync(all, condition);
    if (holds == 0 || holds == all)
        return coalesced_group(all);
    return coalesced_group(condition ? holds : all & ~holds, condition, 2);
}

/* A macro, so that each use is a place of its own, as for __activemask. */
#define coalesced_threads() coalesced_group(__activemask())

/* ---- any of these ---- */

class thread_group
{
  public:
    thread_group(const thread_block &) : mask_(0)
    {
    }
    thread_group(const warp_group &group) : mask_(group.softgpu_mask())
    {
    }
    void sync() const
    {
        if (mask_ == 0)
            __syncthreads();
        else
            __syncwarp(mask_);
    }
    unsigned thread_rank() const
    {
        return mask_ == 0 ? details::rank_in_block()
                          : static_cast<unsigned>(__popc(mask_ & ((1u << softgpu::lane()) - 1)));
    }
    unsigned num_threads() const
    {
        return mask_ == 0 ? details::block_threads() : static_cast<unsigned>(__popc(mask_));
    }
    unsigned size() const
    {
        return num_threads();
    }
    unsigned softgpu_mask() const
    {
        return mask_;
    }

  private:
    unsigned mask_; /* 0: the block */
};

/* The threads of a group, `size` by `size`. */
inline thread_group
tiled_partition(const thread_group &parent, unsigned size)
{
    if (size == 0 || size > 32 || (size & (size - 1)) != 0)
        __trap();
    const unsigned all = parent.softgpu_mask() == 0 ? 0xffffffffu : parent.softgpu_mask();
    const unsigned tile = static_cast<unsigned>(__popc(all & ((1u << softgpu::lane()) - 1))) / size;
    unsigned lanes = 0, rank = 0;
    for (unsigned rest = all; rest != 0; rest &= rest - 1, ++rank) {
        if (rank / size == tile)
            lanes |= rest & -rest;
    }
    return thread_group(coalesced_group(lanes));
}

/* ---- the grid ---- */

class grid_group
{
  public:
    typedef unsigned long long size_type;

    static void sync()
    {
        softgpu_wait(SOFTGPU_GRID);
    }
    static bool is_valid()
    {
        return softgpu_launch_here()->cooperative;
    }
    static unsigned long long block_rank()
    {
        return ::softgpu_here->block.x +
               static_cast<unsigned long long>(::softgpu_here->grid_dim.x) *
                   (::softgpu_here->block.y + ::softgpu_here->grid_dim.y * ::softgpu_here->block.z);
    }
    static unsigned long long num_blocks()
    {
        return static_cast<unsigned long long>(::softgpu_here->grid_dim.x) * ::softgpu_here->grid_dim.y *
               ::softgpu_here->grid_dim.z;
    }
    static unsigned long long thread_rank()
    {
        return block_rank() * details::block_threads() + details::rank_in_block();
    }
    static unsigned long long num_threads()
    {
        return num_blocks() * details::block_threads();
    }
    static unsigned long long size()
    {
        return num_threads();
    }
    static ::dim3 group_dim()
    {
        return ::softgpu_here->grid_dim;
    }
};

inline grid_group
this_grid()
{
    return grid_group();
}

/* ---- a cluster: 1 block, where the launch has none ---- */

class cluster_group
{
    static ::dim3 within(const ::uint3 &place, const ::dim3 &size)
    {
        return ::dim3(place.x % size.x, place.y % size.y, place.z % size.z);
    }

  public:
    typedef unsigned size_type;
    struct arrival_token {
    };

    static void sync()
    {
        if (num_blocks() > 1)
            softgpu_wait(SOFTGPU_CLUSTER);
        else
            __syncthreads();
    }
    /* In two halves: the second does all. */
    static arrival_token barrier_arrive()
    {
        return arrival_token();
    }
    static void barrier_wait(const arrival_token & = arrival_token())
    {
        sync();
    }
    static ::dim3 dim_blocks()
    {
        const softgpu_launch *launch = softgpu_launch_here();
        if (launch->cooperative || launch->group[0] == 0)
            return ::dim3(1, 1, 1);
        return ::dim3(launch->group[0], launch->group[1], launch->group[2]);
    }
    static ::dim3 block_index()
    {
        return within(::softgpu_here->block, dim_blocks());
    }
    static unsigned block_rank()
    {
        const ::dim3 size = dim_blocks(), at = block_index();
        return at.x + size.x * (at.y + size.y * at.z);
    }
    static unsigned num_blocks()
    {
        const ::dim3 size = dim_blocks();
        return size.x * size.y * size.z;
    }
    static unsigned thread_rank()
    {
        return block_rank() * details::block_threads() + details::rank_in_block();
    }
    static unsigned num_threads()
    {
        return num_blocks() * details::block_threads();
    }
    static unsigned size()
    {
        return num_threads();
    }
    /* Where the block of that rank has this shared variable. */
    template <class T> static T *map_shared_rank(T *variable, unsigned rank)
    {
        return num_blocks() > 1 ? static_cast<T *>(softgpu_shared_of(variable, rank)) : variable;
    }
};

inline cluster_group
this_cluster()
{
    return cluster_group();
}

/* ---- free functions ---- */

template <class Group>
inline __attribute__((always_inline)) void
sync(const Group &group)
{
    group.sync();
}

template <class Group>
inline unsigned
thread_rank(const Group &group)
{
    return group.thread_rank();
}

template <class Group>
inline unsigned
group_size(const Group &group)
{
    return group.size();
}

} // namespace cooperative_groups

#endif
