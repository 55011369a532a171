/*
 * atomics.cu - atomic functions lose nothing, whichever block or stream the threads belong to, and return what was
 * there before.
 */
#include "check.h"

#include <algorithm>
#include <thread>

/* Programs bring this for old GPUs, under a condition that holds in host code, where __CUDA_ARCH__ is not defined. */
#if defined(__SOFTGPU__) && __CUDA_ARCH__ < 600
__device__ double
atomicAdd(double *address, double value)
{
    unsigned long long *bits = (unsigned long long *)address, old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
    } while (assumed != old);
    return __longlong_as_double(old);
}
#endif

__global__ void
histogram(const unsigned char *x, unsigned *bins, int n)
{
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[x[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (local[i] != 0)
            atomicAdd(&bins[i], local[i]);
}

struct totals {
    int add, sub, low, high, bits_and, bits_or, bits_xor;
    unsigned unsigned_low, unsigned_high, wraps_up, wraps_down;
    unsigned long long add64, high64;
    float add_float;
    double add_double;
};

__global__ void
all_kinds(totals *t, const int *x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    atomicAdd(&t->add, x[i]);
    atomicSub(&t->sub, x[i]);
    atomicMin(&t->low, x[i]);
    atomicMax(&t->high, x[i]);
    atomicAnd(&t->bits_and, x[i] | 0x40);
    atomicOr(&t->bits_or, x[i] & 0xff);
    atomicXor(&t->bits_xor, x[i]);
    atomicMin(&t->unsigned_low, (unsigned)x[i]);
    atomicMax(&t->unsigned_high, (unsigned)x[i]);
    atomicInc(&t->wraps_up, 9);
    atomicDec(&t->wraps_down, 6);
    atomicAdd(&t->add64, 1ull << 33);
    atomicMax(&t->high64, (unsigned long long)(unsigned)x[i] << 20);
    atomicAdd(&t->add_float, 1.0f);
    atomicAdd(&t->add_double, 0.5);
}

/* Each thread gets a ticket of its own. */
KERNEL(tickets, (unsigned *next, unsigned *taken), taken[atomicAdd(next, 1)] += 1)

/* A list through exchanged heads: every node is in it once. */
__global__ void
push_all(int *head, int *next)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    next[i] = atomicExch(head, i);
}

/* The last block to finish adds up what all have left (the guide's example of __threadfence). */
__device__ unsigned blocks_done = 0;

__global__ void
sum_of_blocks(const float *x, volatile float *partial, float *total)
{
    __shared__ bool is_last;
    __shared__ float part[64];
    part[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0;
        for (int i = 0; i < 64; ++i)
            sum += part[i];
        partial[blockIdx.x] = sum;
        __threadfence();
        is_last = atomicInc(&blocks_done, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        float sum = 0;
        for (unsigned b = 0; b < gridDim.x; ++b)
            sum += partial[b];
        *total = sum;
        blocks_done = 0;
    }
}

__global__ void
spin_lock(int *lock, int *value, int rounds)
{
    for (int r = 0; r < rounds; ++r) {
        if (threadIdx.x == 0) {
            while (atomicCAS(lock, 0, 1) != 0)
                ;
            __threadfence();
            *value = *value + 1;
            __threadfence();
            atomicExch(lock, 0);
        }
        __syncthreads();
    }
}

static void
test_histogram()
{
    std::vector<unsigned char> x(100000);
    std::vector<unsigned> wanted(256);
    for (unsigned char &value : x) {
        value = static_cast<unsigned char>(random_source()() % 256);
        ++wanted[value];
    }
    buffer<unsigned char> dx(x);
    buffer<unsigned> bins(256);
    RUN(histogram<<<7, 128>>>(dx.data, bins.data, static_cast<int>(x.size())));
    expect_equal(bins.read(), wanted, "histogram");
}

static void
test_all_kinds()
{
    const int n = 10000;
    std::vector<int> x(n);
    for (int &value : x)
        value = static_cast<int>(random_source()());
    totals w = {};
    w.low = 5, w.high = -5, w.bits_and = -1, w.unsigned_low = 1u << 31;
    const totals start = w;
    for (int value : x) {
        w.add = static_cast<int>(static_cast<unsigned>(w.add) + static_cast<unsigned>(value));
        w.sub = static_cast<int>(static_cast<unsigned>(w.sub) - static_cast<unsigned>(value));
        w.low = std::min(w.low, value);
        w.high = std::max(w.high, value);
        w.bits_and &= value | 0x40;
        w.bits_or |= value & 0xff;
        w.bits_xor ^= value;
        w.unsigned_low = std::min(w.unsigned_low, static_cast<unsigned>(value));
        w.unsigned_high = std::max(w.unsigned_high, static_cast<unsigned>(value));
        w.wraps_up = w.wraps_up >= 9 ? 0 : w.wraps_up + 1;
        w.wraps_down = w.wraps_down == 0 || w.wraps_down > 6 ? 6 : w.wraps_down - 1;
        w.add64 += 1ull << 33;
        w.high64 = std::max(w.high64, static_cast<unsigned long long>(static_cast<unsigned>(value)) << 20);
        w.add_float += 1;
        w.add_double += 0.5;
    }
    buffer<int> dx(x);
    buffer<totals> device(std::vector<totals>(1, start));
    RUN(all_kinds<<<(n + 63) / 64, 64>>>(device.data, dx.data, n));
    const totals g = device.read()[0];
    CHECK(g.add == w.add && g.sub == w.sub, "add, sub");
    CHECK(g.low == w.low && g.high == w.high && g.unsigned_low == w.unsigned_low && g.unsigned_high == w.unsigned_high,
          "min, max");
    CHECK(g.bits_and == w.bits_and && g.bits_or == w.bits_or && g.bits_xor == w.bits_xor, "bits");
    CHECK(g.wraps_up == w.wraps_up && g.wraps_down == w.wraps_down, "inc, dec: %u %u, not %u %u", g.wraps_up,
          g.wraps_down, w.wraps_up, w.wraps_down);
    CHECK(g.add64 == w.add64 && g.high64 == w.high64, "64 bits");
    CHECK(g.add_float == w.add_float && g.add_double == w.add_double, "floating point");
}

int
main()
{
    test_histogram();
    test_all_kinds();

    buffer<unsigned> next(1), taken(6400);
    RUN(tickets<<<100, 64>>>(next.data, taken.data));
    expect_equal(taken.read(), std::vector<unsigned>(6400, 1), "tickets");

    buffer<int> head(std::vector<int>(1, -1)), links(2560);
    RUN(push_all<<<10, 256>>>(head.data, links.data));
    const std::vector<int> chain = links.read();
    int nodes = 0;
    for (int i = head.read()[0]; i >= 0 && nodes <= 2560; i = chain[i])
        ++nodes;
    CHECK(nodes == 2560, "%d nodes", nodes);

    const std::vector<float> x(64 * 50, 2.0f);
    buffer<float> dx(x), partial(50), total(1);
    for (int again = 0; again < 3; ++again) {
        CUDA(cudaMemset(total.data, 0, sizeof(float)));
        RUN(sum_of_blocks<<<50, 64>>>(dx.data, partial.data, total.data));
        CHECK(total.read()[0] == 6400, "last block's sum is %g", total.read()[0]);
    }

    /* Two streams at once on the same counters. */
    buffer<int> lock(1), value(1);
    cudaStream_t streams[2];
    for (cudaStream_t &stream : streams)
        CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (cudaStream_t stream : streams)
        spin_lock<<<3, 40, 0, stream>>>(lock.data, value.data, 200);
    for (cudaStream_t stream : streams) {
        CUDA(cudaStreamSynchronize(stream));
        CUDA(cudaStreamDestroy(stream));
    }
    CHECK(value.read()[0] == 1200, "%d increments under a lock", value.read()[0]);
    return 0;
}
