/*
 * warps.cu - lanes of a warp exchange values as the CUDA guide says, against a model on the host: every kind of
 * shuffle, width and type; votes, matches and reductions under masks; divergent halves of a warp; warps that are not
 * full.
 */
#include "check.h"

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

/* As trainers write it. */
__inline__ __device__ float
warp_sum(float v)
{
    for (int offset = warpSize / 2; offset > 0; offset /= 2)
        v += __shfl_down_sync(0xffffffff, v, offset);
    return v;
}

__global__ void
softmax(const float *in, float *out, int columns)
{
    const int lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const float *x = in + row * columns;
    float largest = -INFINITY;
    for (int c = lane; c < columns; c += 32)
        largest = fmaxf(largest, x[c]);
    for (int offset = 16; offset > 0; offset >>= 1)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, offset));
    float sum = 0.0f;
    for (int c = lane; c < columns; c += 32)
        sum += expf(x[c] - largest);
    sum = __shfl_sync(0xffffffff, warp_sum(sum), 0);
    for (int c = lane; c < columns; c += 32)
        out[row * columns + c] = expf(x[c] - largest) / sum;
}

static void
test_softmax(int rows, int columns)
{
    const std::vector<float> x = random_vector<float>(rows * columns, -5, 5);
    buffer<float> dx(x), dy(x.size());
    RUN(softmax<<<rows / 4, 128>>>(dx.data, dy.data, columns));
    std::vector<float> wanted(x.size());
    for (int r = 0; r < rows; ++r) {
        double sum = 0;
        for (int c = 0; c < columns; ++c)
            sum += std::exp(x[r * columns + c]);
        for (int c = 0; c < columns; ++c)
            wanted[r * columns + c] = static_cast<float>(std::exp(x[r * columns + c]) / sum);
    }
    expect_close(dy.read(), wanted, 1e-5, "softmax");
}

struct answers {
    unsigned ballot, any, all, match, add, low, high, bits_and, bits_or, bits_xor;
    int signed_low, signed_high, signed_sum, all_match;
    unsigned all_match_mask;
};

/* Each half of a warp goes its own way, under its own mask. */
__global__ void
votes(const unsigned *x, answers *out)
{
    const int t = threadIdx.x, lane = t % 32;
    const unsigned v = x[t];
    answers a;
    if (lane < 12) {
        const unsigned mask = 0x00000fff;
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
        a.all_match_mask = __match_all_sync(mask, v / 8, &a.all_match);
    } else {
        const unsigned mask = 0xfffff000;
        a.all_match_mask = __match_all_sync(mask, v, &a.all_match);
        a.signed_sum = __reduce_add_sync(mask, (int)v - 9);
        a.signed_high = __reduce_max_sync(mask, (int)v - 9);
        a.signed_low = __reduce_min_sync(mask, (int)v - 4);
        a.bits_xor = __reduce_xor_sync(mask, v);
        a.bits_or = __reduce_or_sync(mask, v);
        a.bits_and = __reduce_and_sync(mask, v);
        a.high = __reduce_max_sync(mask, v);
        a.low = __reduce_min_sync(mask, v);
        a.add = __reduce_add_sync(mask, v);
        a.match = __match_any_sync(mask, v);
        a.all = __all_sync(mask, v < 7);
        a.any = __any_sync(mask, v == 3);
        a.ballot = __ballot_sync(mask, v & 1);
    }
    __syncwarp();
    out[t] = a;
}

static void
test_votes(int threads)
{
    std::vector<unsigned> x(threads);
    for (unsigned &value : x)
        value = random_source()() % 8;
    buffer<unsigned> dx(x);
    buffer<answers> dy(threads);
    RUN(votes<<<1, threads>>>(dx.data, dy.data));
    const std::vector<answers> got = dy.read();
    for (int t = 0; t < threads; ++t) {
        const int first = t / 32 * 32, from = first + (t % 32 < 12 ? 0 : 12);
        int to = first + (t % 32 < 12 ? 12 : 32);
        to = to < threads ? to : threads;
        answers w = {0, 0, 1, 0, 0, ~0u, 0, ~0u, 0, 0, 100, -100, 0, 1, t % 32 < 12 ? 0xfffu : 0xfffff000u};
        for (int i = from; i < to; ++i) {
            const unsigned v = x[i];
            w.ballot |= (v & 1) << (i % 32);
            w.any |= v == 3;
            w.all &= v < 7;
            w.match |= static_cast<unsigned>(v == x[t]) << (i % 32);
            w.add += v;
            w.low = v < w.low ? v : w.low;
            w.high = v > w.high ? v : w.high;
            w.bits_and &= v;
            w.bits_or |= v;
            w.bits_xor ^= v;
            w.all_match &= t % 32 < 12 || v == x[t]; /* of 0..7, divided by 8 in the first lanes */
            w.signed_low = static_cast<int>(v) - 4 < w.signed_low ? static_cast<int>(v) - 4 : w.signed_low;
            w.signed_high = static_cast<int>(v) - 9 > w.signed_high ? static_cast<int>(v) - 9 : w.signed_high;
            w.signed_sum += static_cast<int>(v) - 9;
        }
        CHECK(got[t].ballot == w.ballot && got[t].any == w.any && got[t].all == w.all && got[t].match == w.match,
              "votes, thread %d", t);
        CHECK(got[t].add == w.add && got[t].low == w.low && got[t].high == w.high && got[t].signed_low == w.signed_low,
              "reductions, thread %d", t);
        CHECK(got[t].signed_high == w.signed_high && got[t].signed_sum == w.signed_sum, "signed reductions, thread %d",
              t);
        CHECK(got[t].bits_and == w.bits_and && got[t].bits_or == w.bits_or && got[t].bits_xor == w.bits_xor,
              "bit reductions, thread %d", t);
        if (to - from == (t % 32 < 12 ? 12 : 20))
            CHECK(got[t].all_match == w.all_match && got[t].all_match_mask == (w.all_match != 0 ? w.all_match_mask : 0),
                  "the same in all lanes, thread %d", t);
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
    std::vector<int> x(512);
    int wanted = 0;
    for (int &value : x) {
        value = static_cast<int>(random_source()() % 100);
        wanted += value > 40;
    }
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
__global__ void
together(unsigned *out)
{
    out[threadIdx.x] = __activemask();
}

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
    test_softmax(64, 77);
    test_softmax(8, 32);
    for (int threads : {32, 64, 45, 5, 128})
        test_votes(threads);
    test_aggregated();
    buffer<unsigned> masks(40);
    RUN(together<<<1, 40>>>(masks.data));
    for (int t = 0; t < 40; ++t)
        CHECK(masks.read()[t] == (t < 32 ? 0xffffffffu : 0xffu), "active mask of thread %d", t);
    return 0;
}
