/*
 * warps.cu - lanes of a warp exchange values as the CUDA guide says, against a model on the host: every kind of
 * shuffle, width and type; votes, matches and reductions under masks; divergent halves of a warp; warps that are not
 * full.
 */
#include "check.h"

#include <algorithm>
#include <cstring>

struct sixteen {
    int a;
    float b;
    double c;
};

enum kind { SHFL, UP, DOWN, XOR };

template <class T>
__global__ void
shuffles(const T *x, T *y, kind how, int argument, int width)
{
    const int t = threadIdx.x;
    T v = x[t], r;
    switch (how) {
    case SHFL:
        r = __shfl_sync(0xffffffff, v, argument, width);
        break;
    case UP:
        r = __shfl_up_sync(0xffffffff, v, argument, width);
        break;
    case DOWN:
        r = __shfl_down_sync(0xffffffff, v, argument, width);
        break;
    default:
        r = __shfl_xor_sync(0xffffffff, v, argument, width);
        break;
    }
    y[t] = r;
}

/* The guide's tables, lane by lane. */
static int
source_lane(kind how, int lane, int argument, int width)
{
    const int first = lane / width * width;
    switch (how) {
    case SHFL:
        return first + ((argument % width) + width) % width;
    case UP:
        return lane - argument >= first ? lane - argument : lane;
    case DOWN:
        return lane + argument < first + width ? lane + argument : lane;
    default:
        return (lane ^ argument) < first + width ? lane ^ argument : lane;
    }
}

template <class T>
static T
make_value(unsigned bits)
{
    return static_cast<T>(bits % 1000);
}

template <>
sixteen
make_value<sixteen>(unsigned bits)
{
    sixteen value = {static_cast<int>(bits), bits * 0.5f, bits * 0.25};
    return value;
}

template <class T>
static void
test_shuffles()
{
    const int threads = 96;
    std::vector<T> x(threads);
    for (T &value : x)
        value = make_value<T>(random_source()());
    buffer<T> dx(x), dy(threads);
    for (kind how : {SHFL, UP, DOWN, XOR})
        for (int width : {2, 4, 8, 16, 32})
            for (int argument : {0, 1, 2, 3, 7, 16, 31}) {
                RUN(shuffles<<<1, threads>>>(dx.data, dy.data, how, argument, width));
                const std::vector<T> got = dy.read();
                for (int t = 0; t < threads; ++t) {
                    const T wanted = x[t / 32 * 32 + source_lane(how, t % 32, argument, width)];
                    CHECK(std::memcmp(&got[t], &wanted, sizeof(T)) == 0,
                          "shuffle %d of %zu bytes, argument %d, width %d, thread %d", how, sizeof(T), argument, width,
                          t);
                }
            }
}

struct answers {
    unsigned ballot, any, all, match, add, low, high, bits_and, bits_or, bits_xor;
    int signed_low, signed_high, signed_sum, all_match;
    unsigned all_match_mask;
};

__device__ answers
ask(unsigned mask, unsigned v, unsigned same)
{
    answers a;
    a.ballot = __ballot_sync(mask, v & 1);
    a.any = __any_sync(mask, v == 3);
    a.all = __all_sync(mask, v < 7);
    a.match = __match_any_sync(mask, v);
    a.add = __reduce_add_sync(mask, v);
    a.low = __reduce_min_sync(mask, v);
    a.high = __reduce_max_sync(mask, v);
    a.bits_and = __reduce_and_sync(mask, v);
    a.bits_or = __reduce_or_sync(mask, v);
    a.bits_xor = __reduce_xor_sync(mask, v);
    a.signed_low = __reduce_min_sync(mask, (int)v - 4);
    a.signed_high = __reduce_max_sync(mask, (int)v - 9);
    a.signed_sum = __reduce_add_sync(mask, (int)v - 9);
    a.all_match_mask = __match_all_sync(mask, same, &a.all_match);
    return a;
}

/* Each half of a warp goes its own way, under its own mask: they ask for other things at the same time. */
__global__ void
votes(const unsigned *x, answers *out)
{
    const int t = threadIdx.x;
    if (t % 32 < 12) {
        out[t] = ask(0x00000fff, x[t], x[t] / 8);
    } else {
        __syncwarp(0xfffff000);
        out[t] = ask(0xfffff000, x[t], x[t]);
    }
    __syncwarp();
}

static void
test_votes(int threads)
{
    const std::vector<unsigned> x = numbers_of<unsigned>(threads, [](int) { return random_source()() % 8; });
    buffer<unsigned> dx(x);
    buffer<answers> dy(threads);
    RUN(votes<<<1, threads>>>(dx.data, dy.data));
    std::vector<answers> got = dy.read();
    for (int t = 0; t < threads; ++t) {
        const bool is_first = t % 32 < 12;
        const int first = t / 32 * 32, from = first + (is_first ? 0 : 12);
        const int to = std::min(first + (is_first ? 12 : 32), threads);
        answers w = {0, 0, 1, 0, 0, ~0u, 0, ~0u, 0, 0, 100, -100, 0, 1, is_first ? 0xfffu : 0xfffff000u};
        for (int i = from; i < to; ++i) {
            const unsigned v = x[i];
            const int s = static_cast<int>(v);
            w.ballot |= (v & 1) << (i % 32);
            w.any |= v == 3;
            w.all &= v < 7;
            w.match |= static_cast<unsigned>(v == x[t]) << (i % 32);
            w.add += v;
            w.low = std::min(w.low, v);
            w.high = std::max(w.high, v);
            w.bits_and &= v;
            w.bits_or |= v;
            w.bits_xor ^= v;
            w.all_match &= is_first || v == x[t]; /* of 0..7, divided by 8 in the first lanes */
            w.signed_low = std::min(w.signed_low, s - 4);
            w.signed_high = std::max(w.signed_high, s - 9);
            w.signed_sum += s - 9;
        }
        w.all_match_mask = w.all_match != 0 ? w.all_match_mask : 0;
        if (to - from != (is_first ? 12 : 20)) { /* lanes of the mask are missing */
            w.all_match = got[t].all_match;
            w.all_match_mask = got[t].all_match_mask;
        }
        for (size_t i = 0; i < sizeof(w) / sizeof(unsigned); ++i)
            CHECK(reinterpret_cast<const unsigned *>(&got[t])[i] == reinterpret_cast<const unsigned *>(&w)[i],
                  "answer %zu of thread %d", i, t);
    }
}

/* One atomic for all lanes that are here: right for every split of a warp into lanes that are together. */
__global__ void
aggregated(const int *x, int *count, int *slots, int threshold)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[t] > threshold) {
        const unsigned active = __activemask();
        const int leader = __ffs(active) - 1, lane = threadIdx.x % 32;
        int base = 0;
        if (lane == leader)
            base = atomicAdd(count, __popc(active));
        base = __shfl_sync(active, base, leader);
        slots[base + __popc(active & ((1u << lane) - 1))] = t;
    }
}

static void
test_aggregated()
{
    const std::vector<int> x = random_integers(512, 100);
    const int wanted = static_cast<int>(std::count_if(x.begin(), x.end(), [](int value) { return value > 40; }));
    buffer<int> dx(x), count(1), slots(512);
    RUN(aggregated<<<4, 128>>>(dx.data, count.data, slots.data, 40));
    CHECK(count.read()[0] == wanted, "%d, not %d", count.read()[0], wanted);
    const std::vector<int> got = slots.read();
    std::vector<int> seen(512);
    for (int i = 0; i < wanted; ++i)
        ++seen[got[i]];
    for (int t = 0; t < 512; ++t)
        CHECK(seen[t] == (x[t] > 40), "thread %d appears %d times", t, seen[t]);
}

/* With all lanes together, __activemask() has all of them. */
KERNEL(together, (unsigned *out), out[threadIdx.x] = __activemask())

int
main()
{
    test_shuffles<int>();
    test_shuffles<unsigned>();
    test_shuffles<float>();
    test_shuffles<double>();
    test_shuffles<long long>();
    test_shuffles<short>();
#ifdef __SOFTGPU__ /* for nvcc, basic types only */
    test_shuffles<sixteen>();
#endif
    for (int threads : {32, 64, 45, 5, 128})
        test_votes(threads);
    test_aggregated();
    buffer<unsigned> masks(40);
    RUN(together<<<1, 40>>>(masks.data));
    for (int t = 0; t < 40; ++t)
        CHECK(masks.read()[t] == (t < 32 ? 0xffffffffu : 0xffu), "active mask of thread %d", t);
    return 0;
}
