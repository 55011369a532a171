/*
 * device_wide.cu - CUB's device-wide algorithms give what the standard library's give on the host: reductions, also by
 * key and by segment, scans, sorts, selections, runs and histograms of several types and sizes, on a stream between
 * kernels and in a graph, with iterators, in two phases; too little temporary storage is refused, and more items want
 * more of it.
 */
#include "check.h"

#include <cub/cub.cuh>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <thrust/device_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>

static cudaStream_t stream;

/* call(storage, bytes) is one of CUB's functions. */
template <class F>
static void
both_phases(F call)
{
    size_t bytes = 0;
    CUDA(call(nullptr, bytes));
    CHECK(bytes > 0, "no storage");
    buffer<char> storage(bytes);
    size_t too_few = bytes - 1;
    CHECK(call(storage.data, too_few) == cudaErrorInvalidValue, "%zu bytes instead of %zu", too_few, bytes);
    CUDA(call(storage.data, bytes));
    CUDA(cudaStreamSynchronize(stream));
}

/* Calls one of CUB's functions with these arguments behind its storage. */
#define BOTH_PHASES(function, ...) \
    both_phases([&](void *storage, size_t &bytes) { return function(storage, bytes, __VA_ARGS__); })

/* Integers of the whole range; fractions between -1 and 1, zeros of both signs among them. */
template <class T>
static std::vector<T>
numbers(size_t n)
{
    std::vector<T> values(n);
    for (T &value : values)
        value = std::is_integral<T>::value
                    ? static_cast<T>(static_cast<uint64_t>(random_source()()) << 32 | random_source()())
                    : static_cast<T>(static_cast<float>(random_source()() % 2001) / 1000 - 1);
    for (size_t i = 0; i < n; i += 3)
        values[i] = i % 2 == 0 ? static_cast<T>(0) : static_cast<T>(-0.0f);
    return values;
}

template <class T>
static bool
same_bits(const std::vector<T> &a, const std::vector<T> &b)
{
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
static double
as_double(const T &value)
{
    return static_cast<double>(static_cast<float>(value));
}

/* ---- reductions ---- */

template <class T>
static void
test_extremes(int n)
{
    const std::vector<T> x = numbers<T>(n);
    buffer<T> in(x), out(1);
    buffer<cub::KeyValuePair<int, T>> pair(1);
    buffer<int64_t> index(1);
    const auto less = [](const T &a, const T &b) { return a < b; };
    const T *const begin = x.data(), *const low = std::min_element(begin, begin + n, less),
                   *const high = std::max_element(begin, begin + n, less);

    BOTH_PHASES(cub::DeviceReduce::Min, in.data, out.data, n, stream);
    const T least = out.read()[0];
    BOTH_PHASES(cub::DeviceReduce::Max, in.data, out.data, n, stream);
    const T largest = out.read()[0];
    BOTH_PHASES(cub::DeviceReduce::ArgMin, in.data, pair.data, n, stream);
    const cub::KeyValuePair<int, T> where = pair.read()[0];
    BOTH_PHASES(cub::DeviceReduce::ArgMax, in.data, out.data, index.data, n, stream);
    const T at = out.read()[0];
    if (n == 0) {
        const double limit = std::is_same<T, __half>::value ? 65504
                             : std::is_same<T, __nv_bfloat16>::value
                                 ? 3.3895313892515355e38
                                 : static_cast<double>(std::numeric_limits<T>::max());
        CHECK(as_double(least) == static_cast<double>(static_cast<float>(limit)), "%g", as_double(least));
        CHECK(largest == (std::is_integral<T>::value ? std::numeric_limits<T>::lowest() : static_cast<T>(-least)), "%g",
              as_double(largest));
        CHECK(where.key == 1 && where.value == least && index.read()[0] == 1 && at == largest, "%d", where.key);
        return;
    }
    CHECK(least == *low && largest == *high, "%g, %g", as_double(least), as_double(largest));
    CHECK(where.value == *low && where.key == low - begin, "the first at %d", where.key);
    CHECK(at == *high && index.read()[0] == high - begin, "the first at %ld", static_cast<long>(index.read()[0]));
}

template <class T, class Sum>
static void
test_sum(int n, double tolerance)
{
    const std::vector<T> x = numbers<T>(n);
    buffer<T> in(x);
    buffer<Sum> out(1);
    BOTH_PHASES(cub::DeviceReduce::Sum, in.data, out.data, n, stream);
    expect_close(out.read(), {std::accumulate(x.begin(), x.end(), Sum())}, tolerance, "Sum");
    BOTH_PHASES(
        cub::DeviceReduce::Reduce, in.data, out.data, static_cast<int64_t>(n),
        [] __device__(Sum a, Sum c) { return a > c ? a : c; }, static_cast<Sum>(1), stream);
    CHECK(out.read()[0] ==
              std::accumulate(x.begin(), x.end(), static_cast<Sum>(1), [](Sum a, Sum b) { return std::max(a, b); }),
          "Reduce");
}

/* ---- scans ---- */

struct larger {
    template <class T> __host__ __device__ T operator()(const T &a, const T &b) const
    {
        return a < b ? b : a;
    }
};

template <class T>
static void
test_scans(int n, double tolerance)
{
    const std::vector<T> x = numbers<T>(n);
    const buffer<T> in(x);
    buffer<T> out(n);
    std::vector<T> sums(n), before(n), most(n), most_before(n);
    std::inclusive_scan(x.begin(), x.end(), sums.begin());
    std::exclusive_scan(x.begin(), x.end(), before.begin(), T());
    std::inclusive_scan(x.begin(), x.end(), most.begin(), larger());
    std::exclusive_scan(x.begin(), x.end(), most_before.begin(), static_cast<T>(1), larger());
    BOTH_PHASES(cub::DeviceScan::InclusiveSum, in.data, out.data, n, stream);
    expect_close(out.read(), sums, tolerance, "InclusiveSum");
    BOTH_PHASES(cub::DeviceScan::ExclusiveSum, in.data, out.data, n, stream);
    expect_close(out.read(), before, tolerance, "ExclusiveSum");
    BOTH_PHASES(cub::DeviceScan::InclusiveScan, in.data, out.data, larger(), n, stream);
    expect_equal(out.read(), most, "InclusiveScan");
    BOTH_PHASES(cub::DeviceScan::ExclusiveScan, in.data, out.data, larger(), static_cast<T>(1), n, stream);
    expect_equal(out.read(), most_before, "ExclusiveScan");
    std::inclusive_scan(x.begin(), x.end(), most.begin(), larger(), static_cast<T>(1));
    BOTH_PHASES(cub::DeviceScan::InclusiveScanInit, in.data, out.data, larger(), static_cast<T>(1), n, stream);
    expect_equal(out.read(), most, "InclusiveScanInit");

    /* In place. */
    buffer<T> a(x), b(x), c(x), d(x);
    BOTH_PHASES(cub::DeviceScan::ExclusiveSum, a.data, n, stream);
    expect_close(a.read(), before, tolerance, "ExclusiveSum in place");
    BOTH_PHASES(cub::DeviceScan::InclusiveSum, b.data, n, stream);
    expect_close(b.read(), sums, tolerance, "InclusiveSum in place");
    BOTH_PHASES(cub::DeviceScan::ExclusiveScan, c.data, larger(), static_cast<T>(1), n, stream);
    expect_equal(c.read(), most_before, "ExclusiveScan in place");
    std::inclusive_scan(x.begin(), x.end(), most.begin(), larger());
    BOTH_PHASES(cub::DeviceScan::InclusiveScan, d.data, larger(), n, stream);
    expect_equal(d.read(), most, "InclusiveScan in place");
}

/* ---- sorts ---- */

/* The positions of sorted keys, where of a key the bits [begin, end) of an integer count. */
template <class T, class Less>
static std::vector<int>
order_of(const std::vector<T> &keys, Less less)
{
    std::vector<int> order(keys.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return less(keys[a], keys[b]); });
    return order;
}

template <class T>
static std::vector<T>
at_places(const std::vector<T> &values, const std::vector<int> &order)
{
    std::vector<T> sorted;
    for (int i : order)
        sorted.push_back(values[i]);
    return sorted;
}

template <class T>
static void
test_sorts(int n)
{
    const std::vector<T> keys = numbers<T>(n);
    std::vector<int> values(n);
    std::iota(values.begin(), values.end(), 7);
    const buffer<T> in(keys);
    const buffer<int> beside(values);
    buffer<T> out(n), other(keys);
    buffer<int> out_beside(n), other_beside(values);
    const std::vector<int> up = order_of(keys, [](T a, T b) { return a < b; }),
                           down = order_of(keys, [](T a, T b) { return b < a; });

    BOTH_PHASES(cub::DeviceRadixSort::SortKeys, in.data, out.data, n, 0, sizeof(T) * 8, stream);
    CHECK(same_bits(out.read(), at_places(keys, up)), "SortKeys of %d", n);
    BOTH_PHASES(cub::DeviceRadixSort::SortKeysDescending, in.data, out.data, n, 0, sizeof(T) * 8, stream);
    CHECK(same_bits(out.read(), at_places(keys, down)), "SortKeysDescending of %d", n);
    BOTH_PHASES(cub::DeviceRadixSort::SortPairs, in.data, out.data, beside.data, out_beside.data, n, 0, sizeof(T) * 8,
                stream);
    CHECK(same_bits(out.read(), at_places(keys, up)), "SortPairs of %d", n);
    expect_equal(out_beside.read(), at_places(values, up), "SortPairs: values");
    CHECK(same_bits(in.read(), keys) && beside.read() == values, "inputs change");

    cub::DoubleBuffer<T> two(other.data, out.data);
    cub::DoubleBuffer<int> two_beside(other_beside.data, out_beside.data);
    BOTH_PHASES(cub::DeviceRadixSort::SortPairsDescending, two, two_beside, n, 0, sizeof(T) * 8, stream);
    std::vector<T> got(n);
    std::vector<int> got_beside(n);
    CUDA(cudaMemcpy(got.data(), two.Current(), n * sizeof(T), cudaMemcpyDeviceToHost));
    CUDA(cudaMemcpy(got_beside.data(), two_beside.Current(), n * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(same_bits(got, at_places(keys, down)), "SortPairsDescending of %d, two buffers", n);
    expect_equal(got_beside, at_places(values, down), "SortPairsDescending: values");
    BOTH_PHASES(cub::DeviceRadixSort::SortKeys, two, n, 0, sizeof(T) * 8, stream);
    CUDA(cudaMemcpy(got.data(), two.Current(), n * sizeof(T), cudaMemcpyDeviceToHost));
    CHECK(same_bits(got,
                    at_places(at_places(keys, down), order_of(at_places(keys, down), [](T a, T b) { return a < b; }))),
          "SortKeys of %d, two buffers", n);
}

static void
test_bits(int n)
{
    const std::vector<unsigned> keys = numbers<unsigned>(n);
    const buffer<unsigned> in(keys);
    buffer<unsigned> out(n);
    for (const int begin : {0, 5}) {
        for (const int end : {5, 13, 32}) {
            const unsigned mask = end - begin == 32 ? ~0u : (1u << (end - begin)) - 1;
            const auto digits = [=](unsigned key) { return key >> begin & mask; };
            BOTH_PHASES(cub::DeviceRadixSort::SortKeys, in.data, out.data, n, begin, end, stream);
            expect_equal(out.read(),
                         at_places(keys, order_of(keys, [&](unsigned a, unsigned b) { return digits(a) < digits(b); })),
                         "some bits");
            BOTH_PHASES(cub::DeviceRadixSort::SortKeysDescending, in.data, out.data, n, begin, end, stream);
            expect_equal(out.read(),
                         at_places(keys, order_of(keys, [&](unsigned a, unsigned b) { return digits(b) < digits(a); })),
                         "some bits, descending");
        }
    }
}

/* ---- selections ---- */

struct is_positive {
    template <class T> __host__ __device__ bool operator()(const T &a) const
    {
        return T() < a;
    }
};

template <class T>
static void
expect_selected(const T *got, const buffer<int> &count, const std::vector<T> &wanted, const char *what)
{
    CHECK(count.read()[0] == static_cast<int>(wanted.size()), "%s: %d of %zu", what, count.read()[0], wanted.size());
    std::vector<T> values(wanted.size());
    CUDA(cudaMemcpy(values.data(), got, values.size() * sizeof(T), cudaMemcpyDeviceToHost));
    expect_equal(values, wanted, what);
}

template <class T>
static void
test_selections(int n)
{
    std::vector<T> x = numbers<T>(n), flagged, positive, unique;
    std::vector<char> flags(n);
    for (int i = 0; i < n; ++i) {
        flags[i] = static_cast<char>(random_source()() % 2);
        if (i > 0 && random_source()() % 2 == 0)
            x[i] = x[i - 1];
        if (flags[i] != 0)
            flagged.push_back(x[i]);
    }
    std::copy_if(x.begin(), x.end(), std::back_inserter(positive), is_positive());
    std::unique_copy(x.begin(), x.end(), std::back_inserter(unique));
    buffer<T> in(x), out(n);
    const buffer<char> flag(flags);
    buffer<int> count(1);
    BOTH_PHASES(cub::DeviceSelect::Flagged, in.data, flag.data, out.data, count.data, n, stream);
    expect_selected(out.data, count, flagged, "Flagged");
    BOTH_PHASES(cub::DeviceSelect::If, in.data, out.data, count.data, n, is_positive(), stream);
    expect_selected(out.data, count, positive, "If");
    BOTH_PHASES(cub::DeviceSelect::Unique, in.data, out.data, count.data, n, stream);
    expect_selected(out.data, count, unique, "Unique");
    expect_equal(in.read(), x, "an input");
    BOTH_PHASES(cub::DeviceSelect::If, in.data, count.data, n, is_positive(), stream);
    expect_selected(in.data, count, positive, "If in place");
    buffer<T> again(x);
    BOTH_PHASES(cub::DeviceSelect::Flagged, again.data, flag.data, count.data, n, stream);
    expect_selected(again.data, count, flagged, "Flagged in place");
}

/* ---- runs, segments, histograms ---- */

static void
test_runs(int n)
{
    std::vector<int> keys(n), lengths, long_at, long_lengths;
    std::vector<short> unique;
    std::vector<float> values(n), most;
    for (int i = 0, begin = 0; i < n; ++i) {
        keys[i] = i > 0 && random_source()() % 4 != 0 ? keys[i - 1] : static_cast<int>(random_source()() % 5);
        values[i] = static_cast<float>(random_source()() % 100);
        if (i == 0 || keys[i] != keys[i - 1]) {
            begin = i;
            unique.push_back(static_cast<short>(keys[i]));
            lengths.push_back(0);
            most.push_back(values[i]);
        }
        most.back() = std::max(most.back(), values[i]);
        if (++lengths.back() == 2) {
            long_at.push_back(begin);
            long_lengths.push_back(0);
        }
        if (lengths.back() >= 2)
            long_lengths.back() = lengths.back();
    }
    const buffer<int> in(keys);
    const buffer<float> beside(values);
    buffer<short> first(n);
    buffer<int> at(n), length(n), count(1);
    buffer<float> reduced(n);
    BOTH_PHASES(cub::DeviceRunLengthEncode::Encode, in.data, first.data, length.data, count.data, n, stream);
    expect_selected(first.data, count, unique, "Encode");
    expect_selected(length.data, count, lengths, "Encode: lengths");
    BOTH_PHASES(cub::DeviceRunLengthEncode::NonTrivialRuns, in.data, at.data, length.data, count.data, n, stream);
    expect_selected(at.data, count, long_at, "NonTrivialRuns");
    expect_selected(length.data, count, long_lengths, "NonTrivialRuns: lengths");
    BOTH_PHASES(cub::DeviceReduce::ReduceByKey, in.data, first.data, beside.data, reduced.data, count.data, larger(), n,
                stream);
    expect_selected(first.data, count, unique, "ReduceByKey");
    expect_selected(reduced.data, count, most, "ReduceByKey: values");
}

static void
test_segments(int n)
{
    const std::vector<int> x = numbers<int>(n + 1);
    const int segments = n / 3 + 2;
    std::vector<int> ends(segments + 1), sums(segments), least(segments), most(segments);
    std::vector<cub::KeyValuePair<int, int>> where(segments);
    for (int s = 0; s < segments; ++s) /* every fourth is empty, and the first item is in none */
        ends[s + 1] = std::min(n + 1, std::max(1, ends[s] + static_cast<int>(s % 4 == 3 ? 0 : random_source()() % 9)));
    ends[0] = ends[1];
    for (int s = 0; s < segments; ++s) {
        const int *const begin = x.data() + ends[s], *const end = x.data() + ends[s + 1];
        sums[s] = static_cast<int>(std::accumulate(begin, end, 0u));
        least[s] = begin == end ? INT_MAX : *std::min_element(begin, end);
        most[s] = begin == end ? -7 : std::max(-7, *std::max_element(begin, end));
        where[s].key = begin == end ? 1 : static_cast<int>(std::max_element(begin, end) - begin);
        where[s].value = begin == end ? INT_MIN : *std::max_element(begin, end);
    }
    const buffer<int> in(x), bound(ends);
    buffer<int> out(segments);
    buffer<cub::KeyValuePair<int, int>> pairs(segments);
    typedef cub::DeviceSegmentedReduce reduce;
    const int *const end = bound.data + 1;
    BOTH_PHASES(reduce::Sum, reinterpret_cast<const unsigned *>(in.data), out.data, segments, bound.data, end, stream);
    expect_equal(out.read(), sums, "segments: Sum");
    BOTH_PHASES(reduce::Min, in.data, out.data, segments, bound.data, end, stream);
    expect_equal(out.read(), least, "segments: Min");
    BOTH_PHASES(reduce::Reduce, in.data, out.data, segments, bound.data, end, larger(), -7, stream);
    expect_equal(out.read(), most, "segments: Reduce");
    BOTH_PHASES(reduce::ArgMax, in.data, pairs.data, segments, bound.data, end, stream);
    const std::vector<cub::KeyValuePair<int, int>> found = pairs.read();
    for (int s = 0; s < segments; ++s)
        CHECK(found[s].key == where[s].key && found[s].value == where[s].value, "segments: ArgMax of %d", s);
}

static void
test_histogram(int n)
{
    const std::vector<float> x = numbers<float>(n);
    const std::vector<float> bounds = {-0.5f, -0.1f, 0.25f, 0.75f};
    std::vector<unsigned> even(6), ranges(3), of_bytes(10);
    std::vector<unsigned char> bytes(n);
    for (int i = 0; i < n; ++i) {
        bytes[i] = static_cast<unsigned char>(random_source()() % 256);
        if (x[i] >= -0.75f && x[i] < 0.75f)
            ++even[static_cast<int>((x[i] + 0.75f) * 4)];
        for (int r = 0; r < 3; ++r)
            ranges[r] += x[i] >= bounds[r] && x[i] < bounds[r + 1];
        if (bytes[i] >= 20 && bytes[i] < 220)
            ++of_bytes[(bytes[i] - 20) / 20];
    }
    const buffer<float> in(x), bound(bounds);
    const buffer<unsigned char> in_bytes(bytes);
    buffer<unsigned> out(6), out_ranges(3), out_bytes(10);
    BOTH_PHASES(cub::DeviceHistogram::HistogramEven, in.data, out.data, 7, -0.75f, 0.75f, n, stream);
    expect_equal(out.read(), even, "HistogramEven");
    BOTH_PHASES(cub::DeviceHistogram::HistogramEven, in_bytes.data, out_bytes.data, 11, 20, 220, n, stream);
    expect_equal(out_bytes.read(), of_bytes, "HistogramEven of bytes");
    BOTH_PHASES(cub::DeviceHistogram::HistogramRange, in.data, out_ranges.data, 4, bound.data, n, stream);
    expect_equal(out_ranges.read(), ranges, "HistogramRange");
}

/* ---- iterators, streams, graphs ---- */

struct square {
    __host__ __device__ long operator()(int x) const
    {
        return static_cast<long>(x) * x;
    }
};

static void
test_iterators(int n)
{
    buffer<long> sum(1);
    const auto squares = thrust::make_transform_iterator(thrust::counting_iterator<int>(1), square());
    BOTH_PHASES(cub::DeviceReduce::Sum, squares, sum.data, n, stream);
    const long wanted = static_cast<long>(n) * (n + 1) / 2 * (2L * n + 1) / 3;
    CHECK(sum.read()[0] == wanted, "%ld", sum.read()[0]);
    const thrust::counting_iterator<int> from_1(1);
    BOTH_PHASES(cub::DeviceReduce::TransformReduce, from_1, sum.data, n, cub::Sum(), square(), 5L, stream);
    CHECK(sum.read()[0] == wanted + 5, "TransformReduce: %ld", sum.read()[0]);

    thrust::device_vector<int> x(n, 3), y(n);
    BOTH_PHASES(cub::DeviceScan::InclusiveSum, x.begin(), y.begin(), n, stream);
    CHECK(n == 0 || y.back() == 3 * n, "iterators of a device_vector");
    const cub::ArgIndexInputIterator<int *> indexed(thrust::raw_pointer_cast(y.data()));
    buffer<cub::KeyValuePair<ptrdiff_t, int>> out(1);
    BOTH_PHASES(cub::DeviceReduce::Reduce, indexed, out.data, n, cub::ArgMax(),
                cub::KeyValuePair<ptrdiff_t, int>(-1, INT_MIN), stream);
    CHECK(out.read()[0].key == n - 1 && out.read()[0].value == (n == 0 ? INT_MIN : 3 * n), "ArgIndexInputIterator");
}

__global__ void
increment(int *x, int n, int by)
{
    for (int i = 0; i < n; ++i)
        x[i] += by;
}

/* Neither a kernel before the algorithm nor one after it changes its place. */
static void
test_order(int n)
{
    buffer<int> x(n), sum(2);
    size_t bytes = 0;
    CUDA(cub::DeviceReduce::Sum(nullptr, bytes, x.data, sum.data, n));
    buffer<char> storage(bytes);
    const auto work = [&](int *to) {
        increment<<<1, 1, 0, stream>>>(x.data, n, 1);
        CUDA(cub::DeviceReduce::Sum(storage.data, bytes, x.data, to, n, stream));
        increment<<<1, 1, 0, stream>>>(x.data, n, 1);
    };
    work(sum.data);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    work(sum.data + 1);
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; ++i)
        CUDA(cudaGraphLaunch(exec, stream));
    CUDA(cudaStreamSynchronize(stream));
    expect_equal(sum.read(), {n, 5 * n}, "among kernels, and in a graph");
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));

    size_t more = 0;
    CUDA(cub::DeviceReduce::Sum(nullptr, more, x.data, sum.data, n + 4096));
    CHECK(more > bytes, "%zu bytes for %d items, %zu for more", bytes, n, more);
}

int
main()
{
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (const int n : {0, 1, 31, 32, 33, 1000, 100000}) {
        test_extremes<int>(n);
        test_extremes<unsigned char>(n);
        test_extremes<__half>(std::min(n, 5000));
        test_extremes<__nv_bfloat16>(std::min(n, 5000));
        test_sum<float, float>(n, 1e-3);
        test_sum<unsigned char, unsigned>(n, 0);
        test_scans<unsigned>(n, 0);
        test_scans<double>(n, 1e-9);
        test_sorts<int>(n);
        test_sorts<unsigned char>(std::min(n, 5000));
        test_sorts<float>(n);
        test_sorts<double>(std::min(n, 5000));
        test_sorts<__half>(std::min(n, 5000));
        test_bits(std::min(n, 5000));
        test_selections<float>(n);
        test_runs(n);
        test_segments(n);
        test_histogram(n);
        test_iterators(n);
        test_order(n);
    }
    CUDA(cudaStreamDestroy(stream));
    return 0;
}
