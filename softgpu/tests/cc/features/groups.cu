// Threads together: coalesced ones in a branch, tiles of tiles, groups by label and by condition, groups whose kind is
// known at run time; atomics of a block and of the system; loops that wait for what another thread writes.
#include <cooperative_groups.h>
using namespace cooperative_groups;

__device__ int
aggregated_increment(int *counter)
{
    auto active = coalesced_threads();
    int first = 0;
    if (active.thread_rank() == 0)
        first = atomicAdd(counter, static_cast<int>(active.size()));
    return active.shfl(first, 0) + static_cast<int>(active.thread_rank());
}
__global__ void
filter(int *out, int *counter, int *sums)
{
    thread_block block = this_thread_block();
    const int rank = block.thread_rank();
    if (rank % 2 == 1)
        out[aggregated_increment(counter)] = rank;
    block.sync();
    thread_block_tile<32> warp = tiled_partition<32>(block);
    auto quad = tiled_partition<4>(warp);
    int v = rank;
    for (unsigned i = quad.size() / 2; i > 0; i /= 2)
        v += quad.shfl_down(v, i);
    const bool is_large = quad.any(v > 133);
    if (quad.thread_rank() == 0)
        sums[warp.meta_group_rank() * 8 + quad.meta_group_rank()] = is_large ? -v : v;
}
__global__ void
partition(int *sizes, int *ranks)
{
    auto warp = tiled_partition<32>(this_thread_block());
    const int lane = warp.thread_rank();
    const coalesced_group same = labeled_partition(warp, 7 - lane % 5);
    const auto low = binary_partition(warp, lane < 10);
    sizes[lane] = same.size() * 100 + low.size();
    ranks[lane] = same.meta_group_rank() * 100 + same.meta_group_size() * 10 + low.meta_group_rank();
}

FEATURE(groups_by_tile_label_and_condition)
{
    int *out = managed(256), *counter = managed(4), *sums = managed(64), *sizes = managed(128), sum = 0;
    filter<<<1, 64>>>(out, counter, sums);
    EXPECT(done());
    for (int i = 0; i < 32; ++i)
        sum += out[i];
    EXPECT(*counter == 32 && sum == 1024 && sums[0] == 6 && sums[8] == -134);
    partition<<<1, 32>>>(sizes, out);
    EXPECT(done() && sizes[0] == 710 && sizes[1] == 710 && sizes[31] == 722);
    EXPECT(out[1] == 151 && out[30] == 50 && out[14] == 450);
}

__device__ int
reduce_sum(thread_group g, int *temp, int val)
{
    const int lane = g.thread_rank();
    for (int i = g.size() / 2; i > 0; i /= 2) {
        temp[lane] = val;
        g.sync();
        if (lane < i)
            val += temp[lane + i];
        g.sync();
    }
    return val;
}
__global__ void
sums_of_groups(int *out, unsigned tile_size)
{
    extern __shared__ int temp[];
    const thread_block block = this_thread_block();
    const int rank = block.thread_rank(), number = rank / tile_size;
    const int whole = reduce_sum(block, temp, rank);
    if (rank == 0)
        out[0] = whole;
    sync(block);
    thread_group tile = tiled_partition(block, tile_size), half = tiled_partition(tile, tile.size() / 2);
    const int part = reduce_sum(tile, temp + number * tile_size, rank);
    if (thread_rank(tile) == 0)
        out[1 + number] = part + 10000 * half.size();
    if (rank % 3 == 0) {
        const thread_group third = coalesced_threads();
        if (third.thread_rank() == 0)
            atomicAdd(&out[17], third.size());
    }
}

FEATURE(groups_of_any_kind)
{
    int *out = managed(18 * sizeof(int));
    sums_of_groups<<<1, 64, 64 * sizeof(int)>>>(out, 8);
    EXPECT(done() && out[0] == 2016 && out[17] == 22 && out[1] == 40028 && out[5] == 40284 && out[8] == 40476);
}

__global__ void
scoped(int *a, unsigned *u, unsigned long long *l, float *f, double *d)
{
    atomicAdd_block(&a[0], 1);
    atomicSub_system(&a[1], 2);
    atomicMax_block(&a[2], static_cast<int>(threadIdx.x));
    atomicMin_system(&a[3], -static_cast<int>(threadIdx.x));
    atomicAnd_block(&u[0], ~(1u << (threadIdx.x & 31)));
    atomicOr_system(&u[1], 1u << (threadIdx.x & 31));
    atomicXor_block(&u[2], 3u);
    atomicInc_block(&u[3], 9u);
    atomicAdd_system(l, 5ull);
    atomicAdd_block(f, 0.5f);
    atomicAdd_system(d, 0.25);
    if (threadIdx.x == 0) {
        atomicExch_block(&a[4], 42);
        atomicCAS_system(&a[4], 42, 43);
    }
}
__global__ void
vectors(float4 *p)
{
    atomicAdd(p, make_float4(1, 2, 3, 4));
    atomicAdd_block(reinterpret_cast<float2 *>(p + 1), make_float2(0.5f, 0.25f));
}

FEATURE(atomics_have_scopes_and_vectors)
{
    int *a = managed(20);
    unsigned *u = managed(16);
    unsigned long long *l = managed(8);
    float *f = managed(4);
    double *d = managed(8);
    float4 *v = managed(32);
    u[0] = ~0u;
    vectors<<<1, 16>>>(v);
    scoped<<<1, 64>>>(a, u, l, f, d);
    EXPECT(done() && a[0] == 64 && a[1] == -128 && a[2] == 63 && a[3] == -63 && a[4] == 43);
    EXPECT(v[0].x == 16 && v[0].w == 64 && v[1].x == 8 && v[1].y == 4 && v[1].z == 0);
    EXPECT(u[0] == 0 && u[1] == ~0u && u[2] == 0 && u[3] == 4 && *l == 320 && *f == 32 && *d == 16);
}

// One warp waits in a loop for what another warp of its block writes: by a volatile load, with __nanosleep, by an
// atomic function. Lanes that take a lock one after the other, without a barrier in the kernel.
__managed__ int seen[4], count;
__device__ int lock;

template <int How>
__device__ int
read_flag(int *flag)
{
    return How == 0 ? *(volatile int *)flag : atomicAdd(flag, 0);
}

template <int How>
__global__ void
wait_for_warp()
{
    __shared__ int flag;
    if (threadIdx.x == 0)
        flag = 0;
    __syncthreads();
    if (threadIdx.x == 40)
        atomicExch(&flag, 7);
    if (threadIdx.x < 3) {
        int value;
        do {
            value = read_flag<How % 2>(&flag);
            if (How == 2)
                __nanosleep(20);
        } while (value == 0);
        seen[How] = value;
    }
}

__global__ void
take_lock()
{
    for (bool has_taken = false; !has_taken;) {
        if (threadIdx.x % 2 == 1 || atomicAdd(&count, 0) >= 32) {
            while (atomicCAS(&lock, 0, 1) != 0) {
            }
            ++*(volatile int *)&count;
            __threadfence();
            atomicExch(&lock, 0);
            has_taken = true;
        }
    }
}

__global__ void
wait_without_barrier()
{
    if (threadIdx.x == 0)
        while (atomicAdd(&seen[3], 0) == 0) {
        }
    if (threadIdx.x == 35)
        atomicExch(&seen[3], 7);
}

FEATURE(threads_wait_for_others_in_loops)
{
    wait_for_warp<0><<<1, 64>>>();
    wait_for_warp<1><<<1, 64>>>();
    wait_for_warp<2><<<1, 64>>>();
    take_lock<<<1, 64>>>();
    wait_without_barrier<<<1, 64>>>();
    EXPECT(done() && seen[0] == 7 && seen[1] == 7 && seen[2] == 7 && seen[3] == 7 && count == 64);
}
