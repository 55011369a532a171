/*
 * asynchronous.cu - copies in the background and who waits for them: cuda::barrier, cuda::pipeline of a thread and of a
 * block, memcpy_async of groups, primitives. Each kernel turns numbers around or adds them up, and reads what another
 * thread has copied: without the wait, one that ran later.
 */
#include "check.h"

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>

namespace cg = cooperative_groups;

enum { THREADS = 96, STAGES = 3, ROUNDS = 10 };

typedef cuda::barrier<cuda::thread_scope_block> block_barrier;

/* The last arrival of each round counts it, before the others continue. */
struct count_rounds {
    int *rounds;
    __device__ void operator()() const
    {
        ++*rounds;
    }
};

__global__ void
rounds(int *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block, count_rounds> barrier;
    __shared__ int round, sum;
    const int t = threadIdx.x;
    if (t == 0) {
        round = sum = 0;
        init(&barrier, blockDim.x, count_rounds{&round});
    }
    __syncthreads();
    bool fine = true;
    for (int i = 1; i <= ROUNDS; ++i) {
        atomicAdd(&sum, t);
        if (t % 2 == 0)
            barrier.arrive_and_wait();
        else
            barrier.wait(barrier.arrive());
        fine = fine && round == 2 * i - 1 && sum == i * (THREADS * (THREADS - 1) / 2);
        barrier.arrive_and_wait();
        fine = fine && round == 2 * i;
    }
    out[t] = fine;
}

/* The second warp fills what the first reads; a third leaves early, and is no longer expected. */
__global__ void
halves(const int *x, int *out)
{
    __shared__ block_barrier full, empty, everyone;
    __shared__ int s[32];
    const int t = threadIdx.x, lane = t % 32;
    if (t == 0) {
        init(&full, 64);
        init(&empty, 64);
        new (&everyone) block_barrier(THREADS);
    }
    __syncthreads();
    if (t >= 64) {
        everyone.arrive_and_drop();
        return;
    }
    everyone.arrive_and_wait();
    int total = 0;
    for (int i = 0; i < ROUNDS; ++i) {
        if (t >= 32) {
            if (i > 0)
                empty.wait_parity((i - 1) & 1);
            cuda::memcpy_async(&s[lane], &x[i * 32 + 31 - lane], sizeof(int), full);
            (void)full.arrive();
            (void)empty.arrive();
        } else {
            full.wait(full.arrive());
            total += s[lane];
            (void)empty.arrive();
        }
    }
    everyone.arrive_and_wait();
    if (t < 32)
        out[t] = total;
}

template <class Size>
__global__ void
by_barrier(const int *x, int *out)
{
    __shared__ block_barrier barrier;
    __shared__ __align__(16) int s[THREADS];
    const cg::thread_block block = cg::this_thread_block();
    const int t = block.thread_rank();
    if (t == 0)
        init(&barrier, block.size());
    block.sync();
    cuda::memcpy_async(block, s, x, Size(sizeof(s)), barrier);
    barrier.arrive_and_wait();
    out[t] = s[THREADS - 1 - t];
}

/* Three stages of a block, in which all copy and all read. */
__global__ void
unified(const int *x, int *out)
{
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    __shared__ int s[STAGES][THREADS];
    const auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int total = 0;
    for (int i = 0, ahead = 0; i < ROUNDS; ++i) {
        for (; ahead < ROUNDS && ahead < i + STAGES; ++ahead) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[ahead % STAGES], x + ahead * THREADS, sizeof(s[0]), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        total += (i + 1) * s[i % STAGES][THREADS - 1 - threadIdx.x];
        pipe.consumer_release();
    }
    out[threadIdx.x] = total;
}

/* One warp copies, which may be two stages ahead, and the others read. */
template <bool ByCount>
__global__ void
specialised(const int *x, int *out)
{
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ int s[2][64];
    const cg::thread_block block = cg::this_thread_block();
    const int t = threadIdx.x;
    const auto role = t < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = [&] {
        if constexpr (ByCount)
            return cuda::make_pipeline(block, &state, size_t{32});
        else
            return cuda::make_pipeline(block, &state, role);
    }();
    int total = 0;
    for (int i = 0; i < ROUNDS; ++i) {
        if (t < 32) {
            pipe.producer_acquire();
            cuda::memcpy_async(&s[i % 2][2 * t], &x[i * 64 + 2 * t], cuda::aligned_size_t<8>(2 * sizeof(int)), pipe);
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            total += (i + 1) * s[i % 2][95 - t];
            pipe.consumer_release();
        }
    }
    out[t] = total;
}

/* Of each thread by itself: no other waits. */
__global__ void
by_thread(const int *x, int *out)
{
    __shared__ int s[THREADS], r[THREADS];
    const int t = threadIdx.x;
    auto pipe = cuda::make_pipeline();
    pipe.producer_acquire();
    cuda::memcpy_async(&s[t], &x[t], sizeof(int), pipe);
    pipe.producer_commit();
    __pipeline_memcpy_async(&r[t], &x[THREADS + t], sizeof(int), t % 3 == 0 ? 4 : 0);
    __pipeline_commit();
    cuda::pipeline_consumer_wait_prior<0>(pipe);
    __pipeline_wait_prior(0);
    pipe.consumer_release();
    __syncthreads();
    out[t] = s[THREADS - 1 - t] + 1000 * r[THREADS - 1 - t];
}

/* Groups of a block and of a warp; what is longer is not read. */
__global__ void
by_group(const int *x, int *out)
{
    __shared__ int s[THREADS], r[THREADS];
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<32>(block);
    const int t = threadIdx.x, w = tile.meta_group_rank() * 32;
    r[THREADS - 1 - t] = -1;
    auto token = block.barrier_arrive();
    block.barrier_wait(std::move(token));
    cg::memcpy_async(block, s, x, sizeof(s));
    cg::memcpy_async(tile, r + w, 32, x + w, 30);
    cg::wait_prior<1>(block);
    cg::wait(tile);
    out[t] = s[THREADS - 1 - t] + 1000 * r[w + 31 - tile.thread_rank()];
}

int
main()
{
    const std::vector<int> x = random_integers(ROUNDS * THREADS, 1000);
    std::vector<int> wanted(THREADS, 1);
    buffer<int> dx(x), out(THREADS);
    const auto compare = [&](const char *name) {
        finish_launch();
        expect_equal(out.read(), wanted, name);
    };
    const auto wants = [&](auto value) {
        for (int t = 0; t < THREADS; ++t)
            wanted[t] = value(t);
    };

    rounds<<<1, THREADS>>>(out.data);
    compare("rounds of a barrier");

    by_barrier<size_t><<<1, THREADS>>>(dx.data, out.data);
    wants([&](int t) { return x[THREADS - 1 - t]; });
    compare("a copy by a barrier");
    by_barrier<cuda::aligned_size_t<16>><<<1, THREADS>>>(dx.data, out.data);
    compare("an aligned copy by a barrier");

    unified<<<1, THREADS>>>(dx.data, out.data);
    wants([&](int t) {
        int total = 0;
        for (int i = 0; i < ROUNDS; ++i)
            total += (i + 1) * x[i * THREADS + THREADS - 1 - t];
        return total;
    });
    compare("a pipeline of all threads");

    by_thread<<<1, THREADS>>>(dx.data, out.data);
    wants([&](int t) {
        const int other = THREADS - 1 - t;
        return x[other] + 1000 * (other % 3 == 0 ? 0 : x[THREADS + other]);
    });
    compare("pipelines of single threads");

    by_group<<<1, THREADS>>>(dx.data, out.data);
    wants([&](int t) { return x[THREADS - 1 - t] + 1000 * (t % 32 < 2 ? -1 : x[t / 32 * 32 + 31 - t % 32]); });
    compare("copies of groups");

    wants([&](int t) {
        int total = 0;
        for (int i = 0; t >= 32 && i < ROUNDS; ++i)
            total += (i + 1) * x[i * 64 + 95 - t];
        return total;
    });
    specialised<false><<<1, THREADS>>>(dx.data, out.data);
    compare("a pipeline with roles");
    specialised<true><<<1, THREADS>>>(dx.data, out.data);
    compare("a pipeline with producers by number");

    halves<<<1, THREADS>>>(dx.data, out.data);
    wants([&](int t) {
        int total = 0;
        for (int i = 0; t < 32 && i < ROUNDS; ++i)
            total += x[i * 32 + 31 - t];
        return t < 32 ? total : wanted[t];
    });
    compare("two warps and two barriers");
    return 0;
}
