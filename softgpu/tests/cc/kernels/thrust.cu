/*
 * thrust.cu - Thrust's vectors, iterators and algorithms give what the C++ standard library gives on the host, in the
 * order of streams with kernels around them; the memory of a device_vector is device memory.
 */
#include "check.h"

#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/fill.h>
#include <thrust/for_each.h>
#include <thrust/functional.h>
#include <thrust/gather.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/logical.h>
#include <thrust/merge.h>
#include <thrust/mismatch.h>
#include <thrust/partition.h>
#include <thrust/random.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/swap.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/transform_scan.h>
#include <thrust/uninitialized_copy.h>
#include <thrust/uninitialized_fill.h>
#include <thrust/unique.h>

#include <algorithm>
#include <numeric>
#include <sstream>

struct scaled {
    float by;
    __host__ __device__ float operator()(float x) const
    {
        return by * x;
    }
};

struct axpy {
    float a;
    __host__ __device__ float operator()(float x, float y) const
    {
        return a * x + y;
    }
};

struct add_pair {
    template <class Tuple> __host__ __device__ void operator()(Tuple t) const
    {
        thrust::get<2>(t) = thrust::get<0>(t) + thrust::get<1>(t);
    }
};

struct is_positive {
    __host__ __device__ bool operator()(float x) const
    {
        return x > 0;
    }
};

struct draw {
    unsigned seed;
    __host__ __device__ float operator()(unsigned i) const
    {
        thrust::default_random_engine engine(seed);
        thrust::uniform_real_distribution<float> uniform(0.0f, 1.0f);
        engine.discard(i);
        return uniform(engine);
    }
};

__global__ void
increment(float *x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] += 1;
}

template <class Device>
static std::vector<typename Device::value_type>
host(const Device &v)
{
    std::vector<typename Device::value_type> values(v.size());
    thrust::copy(v.begin(), v.end(), values.begin());
    return values;
}

static void
test_elements(int n)
{
    const std::vector<float> x = random_vector<float>(n), y = random_vector<float>(n);
    thrust::device_vector<float> dx(x.begin(), x.end()), dy = y, out(n);
    std::vector<float> wanted(n);

    cudaPointerAttributes attributes;
    CUDA(cudaPointerGetAttributes(&attributes, thrust::raw_pointer_cast(dx.data())));
    CHECK(attributes.type == cudaMemoryTypeDevice, "type %d", static_cast<int>(attributes.type));

    thrust::transform(dx.begin(), dx.end(), out.begin(), scaled{3});
    std::transform(x.begin(), x.end(), wanted.begin(), scaled{3});
    expect_equal(host(out), wanted, "transform");
    thrust::transform(thrust::device, dx.begin(), dx.end(), dy.begin(), out.begin(), axpy{2});
    std::transform(x.begin(), x.end(), y.begin(), wanted.begin(), axpy{2});
    expect_close(host(out), wanted, 1e-7, "transform of two");
    {
        using namespace thrust::placeholders;
        thrust::transform(dx.begin(), dx.end(), dy.begin(), out.begin(), 2.0f * _1 + _2);
        expect_close(host(out), wanted, 1e-7, "placeholders");
        CHECK(thrust::count_if(dx.begin(), dx.end(), _1 > 0.25f && !(_1 >= 0.5f)) ==
                  std::count_if(x.begin(), x.end(), [](float value) { return value > 0.25f && value < 0.5f; }),
              "placeholders that compare");
    }
    thrust::for_each(thrust::make_zip_iterator(thrust::make_tuple(dx.begin(), dy.begin(), out.begin())),
                     thrust::make_zip_iterator(thrust::make_tuple(dx.end(), dy.end(), out.end())), add_pair());
    std::transform(x.begin(), x.end(), y.begin(), wanted.begin(), std::plus<float>());
    expect_equal(host(out), wanted, "for_each over a zip");

    /* Between kernels: neither may run before what stands before it. */
    increment<<<(n + 127) / 128, 128>>>(thrust::raw_pointer_cast(out.data()), n);
    thrust::transform(out.begin(), out.end(), out.begin(), scaled{2});
    increment<<<(n + 127) / 128, 128>>>(thrust::raw_pointer_cast(&out[0]), n);
    for (float &value : wanted)
        value = 2 * (value + 1) + 1;
    expect_equal(host(out), wanted, "among kernels");

    thrust::sequence(out.begin(), out.end(), 5.0f, 2.0f);
    for (int i = 0; i < n; ++i)
        wanted[i] = 5 + 2.0f * i;
    expect_equal(host(out), wanted, "sequence");
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_source());
    thrust::device_vector<int> map = order;
    thrust::gather(map.begin(), map.end(), dx.begin(), out.begin());
    for (int i = 0; i < n; ++i)
        wanted[i] = x[order[i]];
    expect_equal(host(out), wanted, "gather");
    thrust::copy(thrust::make_permutation_iterator(dx.begin(), map.begin()),
                 thrust::make_permutation_iterator(dx.begin(), map.end()), dy.begin());
    expect_equal(host(dy), wanted, "permutation");
    thrust::counting_iterator<unsigned> first(0);
    thrust::transform(first, first + n, out.begin(), draw{7});
    for (int i = 0; i < n; ++i)
        wanted[i] = draw{7}(i);
    expect_equal(host(out), wanted, "random numbers");
}

static void
test_values(int n)
{
    const std::vector<float> x = random_vector<float>(n, -9, 9);
    std::vector<int> k = random_integers(n, 5);
    thrust::device_vector<float> dx = x;
    thrust::device_vector<int> dk = k;
    thrust::device_ptr<float> pointer(thrust::raw_pointer_cast(dx.data()));

    const float sum = thrust::reduce(pointer, pointer + n, 0.5f, thrust::plus<float>());
    CHECK(std::fabs(sum - std::accumulate(x.begin(), x.end(), 0.5f)) < 1e-3, "%g", sum);
    CHECK(thrust::reduce(dk.begin(), dk.end()) == std::accumulate(k.begin(), k.end(), 0), "sum");
    CHECK(thrust::reduce(thrust::device, dx.begin(), dx.end(), -100.0f, thrust::maximum<float>()) ==
              *std::max_element(x.begin(), x.end()),
          "maximum");
    const float squares =
        thrust::transform_reduce(dx.begin(), dx.end(), thrust::square<float>(), 0.0f, thrust::plus<float>());
    CHECK(std::fabs(squares - std::inner_product(x.begin(), x.end(), x.begin(), 0.0f)) < 1e-2, "%g", squares);
    CHECK(std::fabs(thrust::inner_product(dx.begin(), dx.end(), dx.begin(), 0.0f) - squares) < 1e-2, "inner_product");
    CHECK(thrust::max_element(dx.begin(), dx.end()) - dx.begin() == std::max_element(x.begin(), x.end()) - x.begin(),
          "max_element");
    CHECK(thrust::count(dk.begin(), dk.end(), 3) == std::count(k.begin(), k.end(), 3), "count");
    CHECK(thrust::count_if(dx.begin(), dx.end(), is_positive()) == std::count_if(x.begin(), x.end(), is_positive()),
          "count_if");
    CHECK(thrust::any_of(dx.begin(), dx.end(), is_positive()) == std::any_of(x.begin(), x.end(), is_positive()),
          "any_of");

    std::vector<std::pair<int, float>> both;
    for (int i = 0; i < n; ++i)
        both.emplace_back(k[i], x[i]);
    std::stable_sort(both.begin(), both.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    thrust::device_vector<int> keys = dk;
    thrust::device_vector<float> values = dx;
    thrust::stable_sort_by_key(keys.begin(), keys.end(), values.begin());
    std::vector<int> wanted_keys;
    std::vector<float> wanted_values;
    for (const auto &pair : both) {
        wanted_keys.push_back(pair.first);
        wanted_values.push_back(pair.second);
    }
    expect_equal(host(keys), wanted_keys, "sorted keys");
    expect_equal(host(values), wanted_values, "values beside sorted keys");
    const auto ends = thrust::reduce_by_key(keys.begin(), keys.end(), thrust::make_constant_iterator(1), dk.begin(),
                                            thrust::device_vector<int>(n).begin());
    wanted_keys.erase(std::unique(wanted_keys.begin(), wanted_keys.end()), wanted_keys.end());
    CHECK(ends.first - dk.begin() == static_cast<ptrdiff_t>(wanted_keys.size()), "groups");
    keys.erase(thrust::unique(keys.begin(), keys.end()), keys.end());
    expect_equal(host(keys), wanted_keys, "unique");

    std::vector<float> sorted = x, kept;
    std::sort(sorted.begin(), sorted.end(), std::greater<float>());
    thrust::sort(dx.begin(), dx.end(), thrust::greater<float>());
    expect_equal(host(dx), sorted, "sort");
    values.resize(n);
    thrust::inclusive_scan(dx.begin(), dx.end(), values.begin());
    std::partial_sum(sorted.begin(), sorted.end(), sorted.begin());
    expect_close(host(values), sorted, 1e-5, "inclusive_scan");
    values.resize(thrust::copy_if(dx.begin(), dx.end(), values.begin(), is_positive()) - values.begin());
    CHECK(static_cast<ptrdiff_t>(values.size()) == std::count_if(x.begin(), x.end(), is_positive()), "copy_if");
}

static std::vector<int>
random_ints(int n, int limit)
{
    std::vector<int> x;
    for (float value : random_vector<float>(n))
        x.push_back(static_cast<int>(std::fabs(value) * 1e6f) % limit);
    return x;
}

struct is_odd {
    __host__ __device__ bool operator()(int x) const
    {
        return x % 2 != 0;
    }
};

/* The first n elements. */
template <class T>
static std::vector<T>
first_of(const thrust::device_vector<T> &v, ptrdiff_t n)
{
    std::vector<T> values = host(v);
    values.resize(static_cast<size_t>(n));
    return values;
}

/* Numbers the elements as a block does that has one thread: with a shared variable, which its first thread clears. */
struct number {
    int *count;
    __device__ void operator()(int &x) const
    {
        __shared__ int wanted, begin;
        if (threadIdx.x == 0)
            wanted = 0;
        __syncthreads();
        const int mine = atomicAdd(&wanted, 1);
        __syncthreads();
        if (threadIdx.x == 0)
            begin = atomicAdd(count, wanted);
        __syncthreads();
        x = begin + mine;
    }
};

static void
test_blocks(int n)
{
    thrust::device_vector<int> d(n, -1), count(1);
    std::vector<int> wanted(n);
    std::iota(wanted.begin(), wanted.end(), 0);
    thrust::for_each(d.begin(), d.end(), number{thrust::raw_pointer_cast(count.data())});
    thrust::sort(d.begin(), d.end()); /* the order of the elements is the library's */
    expect_equal(host(d), wanted, "a function object with threadIdx and barriers");
}

static void
test_partitions(int n)
{
    const std::vector<int> x = random_ints(n, 20);
    const thrust::device_vector<int> dx = x;
    std::vector<int> wanted = x, flags(n), odd, even;
    const ptrdiff_t accepted = std::stable_partition(wanted.begin(), wanted.end(), is_odd()) - wanted.begin();
    thrust::device_vector<int> d = dx;
    CHECK(thrust::stable_partition(d.begin(), d.end(), is_odd()) - d.begin() == accepted, "stable_partition's border");
    expect_equal(host(d), wanted, "stable_partition");
    CHECK(thrust::is_partitioned(d.begin(), d.end(), is_odd()), "is_partitioned");
    CHECK(thrust::partition_point(d.begin(), d.end(), is_odd()) - d.begin() == accepted, "partition_point");
    thrust::device_vector<int> mixed{1, 2, 3};
    CHECK(!thrust::is_partitioned(mixed.begin(), mixed.end(), is_odd()), "is_partitioned of what is not");

    for (int i = 0; i < n; ++i) {
        flags[i] = i % 3 == 0;
        (flags[i] ? odd : even).push_back(x[i]);
    }
    const thrust::device_vector<int> stencil = flags;
    thrust::device_vector<int> out(n), others(n);
    const auto ends = thrust::partition_copy(dx.begin(), dx.end(), stencil.begin(), out.begin(), others.begin(),
                                             thrust::identity<int>());
    expect_equal(first_of(out, ends.first - out.begin()), odd, "partition_copy, accepted");
    expect_equal(first_of(others, ends.second - others.begin()), even, "partition_copy, the others");
    odd.insert(odd.end(), even.begin(), even.end());
    d = dx;
    thrust::partition(d.begin(), d.end(), stencil.begin(), thrust::identity<int>());
    expect_equal(host(d), odd, "partition by a stencil");

    std::vector<int> kept;
    std::remove_copy(x.begin(), x.end(), std::back_inserter(kept), 3);
    expect_equal(first_of(out, thrust::remove_copy(dx.begin(), dx.end(), out.begin(), 3) - out.begin()), kept,
                 "remove_copy");
    const auto removed =
        thrust::remove_copy_if(dx.begin(), dx.end(), stencil.begin(), out.begin(), thrust::identity<int>());
    expect_equal(first_of(out, removed - out.begin()), even, "remove_copy_if by a stencil");
}

static void
test_sorted(int n)
{
    std::vector<int> a = random_ints(n, 50), b = random_ints(n + 5, 50), wanted;
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    const thrust::device_vector<int> da = a, db = b;
    thrust::device_vector<int> out(2 * n + 5), values(2 * n + 5);

    for (int value : {-1, a[n / 2], 1000}) {
        const auto range = thrust::equal_range(da.begin(), da.end(), value);
        CHECK(range.first - da.begin() == std::lower_bound(a.begin(), a.end(), value) - a.begin(), "lower %d", value);
        CHECK(range.second - da.begin() == std::upper_bound(a.begin(), a.end(), value) - a.begin(), "upper %d", value);
        CHECK(thrust::binary_search(da.begin(), da.end(), value) == std::binary_search(a.begin(), a.end(), value),
              "binary_search of %d", value);
    }
    thrust::lower_bound(thrust::device, da.begin(), da.end(), db.begin(), db.end(), out.begin());
    for (int value : b)
        wanted.push_back(static_cast<int>(std::lower_bound(a.begin(), a.end(), value) - a.begin()));
    expect_equal(first_of(out, n + 5), wanted, "lower_bound of each");
    thrust::binary_search(da.begin(), da.end(), db.begin(), db.end(), out.begin(), thrust::less<int>());
    for (int i = 0; i < n + 5; ++i)
        wanted[i] = std::binary_search(a.begin(), a.end(), b[i]);
    expect_equal(first_of(out, n + 5), wanted, "binary_search of each");

    const auto compare = [&](const char *what, auto end, auto of_std) {
        wanted.clear();
        of_std(std::back_inserter(wanted));
        expect_equal(first_of(out, end - out.begin()), wanted, what);
    };
    compare("merge", thrust::merge(da.begin(), da.end(), db.begin(), db.end(), out.begin()),
            [&](auto to) { std::merge(a.begin(), a.end(), b.begin(), b.end(), to); });
    compare("set_union", thrust::set_union(da.begin(), da.end(), db.begin(), db.end(), out.begin()),
            [&](auto to) { std::set_union(a.begin(), a.end(), b.begin(), b.end(), to); });
    compare("set_intersection", thrust::set_intersection(da.begin(), da.end(), db.begin(), db.end(), out.begin()),
            [&](auto to) { std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), to); });
    compare("set_difference", thrust::set_difference(da.begin(), da.end(), db.begin(), db.end(), out.begin()),
            [&](auto to) { std::set_difference(a.begin(), a.end(), b.begin(), b.end(), to); });
    compare("set_symmetric_difference",
            thrust::set_symmetric_difference(da.begin(), da.end(), db.begin(), db.end(), out.begin()),
            [&](auto to) { std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), to); });

    /* The values tell the ranges apart: of equal keys those of the first range come first. */
    thrust::merge_by_key(da.begin(), da.end(), db.begin(), db.end(), thrust::make_counting_iterator(0),
                         thrust::make_counting_iterator(n), out.begin(), values.begin());
    std::vector<std::pair<int, int>> both;
    for (int i = 0; i < 2 * n + 5; ++i)
        both.emplace_back(i < n ? a[i] : b[i - n], i);
    std::stable_sort(both.begin(), both.end(), [](const auto &x, const auto &y) { return x.first < y.first; });
    wanted.clear();
    for (const auto &pair : both)
        wanted.push_back(pair.second);
    expect_equal(host(values), wanted, "merge_by_key");

    CHECK(thrust::is_sorted_until(da.begin(), da.end()) == da.end(), "is_sorted_until");
    std::vector<int> keys = a;
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    CHECK(thrust::unique_count(da.begin(), da.end()) == static_cast<ptrdiff_t>(keys.size()), "unique_count");
    const auto ends = thrust::unique_by_key_copy(da.begin(), da.end(), thrust::make_counting_iterator(0), out.begin(),
                                                 values.begin());
    expect_equal(first_of(out, ends.first - out.begin()), keys, "unique_by_key_copy, keys");
    for (int &key : keys)
        key = static_cast<int>(std::lower_bound(a.begin(), a.end(), key) - a.begin());
    expect_equal(first_of(values, ends.second - values.begin()), keys, "unique_by_key_copy, the first values");
}

static void
test_neighbours(int n)
{
    const std::vector<int> x = random_ints(n, 90);
    std::vector<int> wanted(n);
    thrust::device_vector<int> d = x, out(n), other(n, 4);
    const auto twice = [] __host__ __device__(int value) { return 2 * value; };

    thrust::adjacent_difference(d.begin(), d.end(), out.begin());
    std::adjacent_difference(x.begin(), x.end(), wanted.begin());
    expect_equal(host(out), wanted, "adjacent_difference");
    thrust::transform_inclusive_scan(d.begin(), d.end(), out.begin(), twice, thrust::plus<int>());
    std::transform_inclusive_scan(x.begin(), x.end(), wanted.begin(), std::plus<int>(), twice);
    expect_equal(host(out), wanted, "transform_inclusive_scan");
    thrust::transform_exclusive_scan(d.begin(), d.end(), out.begin(), twice, 7, thrust::plus<int>());
    std::transform_exclusive_scan(x.begin(), x.end(), wanted.begin(), 7, std::plus<int>(), twice);
    expect_equal(host(out), wanted, "transform_exclusive_scan");

    thrust::swap_ranges(d.begin(), d.end(), other.begin());
    expect_equal(host(other), x, "swap_ranges");
    CHECK(d[n - 1] == 4, "swap_ranges: %d", static_cast<int>(d[n - 1]));
    d = other;
    CHECK(thrust::mismatch(d.begin(), d.end(), other.begin()).first == d.end(), "mismatch of equal ranges");
    d[n / 2] += 1;
    CHECK(thrust::mismatch(d.begin(), d.end(), other.begin()).second - other.begin() == n / 2, "mismatch");
    thrust::uninitialized_copy(other.begin(), other.end(), out.begin());
    expect_equal(host(out), x, "uninitialized_copy");
    thrust::uninitialized_fill_n(out.begin(), n, 3);
    expect_equal(host(out), std::vector<int>(n, 3), "uninitialized_fill_n");
    std::vector<int> on_host(n);
    thrust::adjacent_difference(x.begin(), x.end(), on_host.begin());
    std::adjacent_difference(x.begin(), x.end(), wanted.begin());
    expect_equal(on_host, wanted, "adjacent_difference on the host");
}

static void
test_vectors()
{
    thrust::host_vector<float> h(4, 1.5f);
    thrust::device_vector<float> d = h;
    d.push_back(7);
    d[0] = 3;
    d[1] += 1;
    h = d;
    expect_equal(std::vector<float>(h.begin(), h.end()), std::vector<float>{3, 2.5, 1.5, 1.5, 7}, "elements");
    const float last = d.back();
    CHECK(last == 7 && d.size() == 5, "%g", last);
    thrust::device_vector<float> other(3, 9.0f);
    other.swap(d);
    CHECK(other == thrust::device_vector<float>(h) && d.size() == 3, "swap, ==");
    thrust::fill(thrust::cuda::par.on(cudaStreamPerThread), d.begin(), d.end(), 2);
    expect_equal(host(d), std::vector<float>(3, 2.0f), "fill on a stream");
    CHECK(thrust::reduce(h.begin(), h.end()) == 15.5f, "on the host");
}

template <class T>
static void
expect_elements(const thrust::device_vector<T> &got, const std::vector<T> &wanted, const char *what)
{
    expect_equal(host(got), wanted, what);
    CHECK(got == wanted && wanted == got && !(got != wanted), "%s: ==", what);
}

/* Each change of a device_vector beside the same one of a std::vector. */
static void
test_changes()
{
    thrust::device_vector<int> d{1, 2, 3, 4};
    std::vector<int> v{1, 2, 3, 4};
    const int more[] = {50, 60, 70};
    const auto both = [&](const char *what, auto change) {
        change(d);
        change(v);
        expect_elements(d, v, what);
    };

    both("insert, with more room", [](auto &x) { CHECK(*x.insert(x.begin() + 1, 9) == 9, "insert's iterator"); });
    both("insert of several", [&](auto &x) {
        x.insert(x.end(), 2, 8);
        x.insert(x.begin(), more, more + 3);
    });
    d.reserve(40);
    CHECK(d.capacity() >= 40 && d.max_size() > 40, "%zu", d.capacity());
    both("insert within the room", [](auto &x) { x.insert(x.begin() + 2, 5, 7); });
    const std::vector<int> own(v.begin(), v.begin() + 4);
    d.insert(d.begin() + 3, d.begin(), d.begin() + 4);
    v.insert(v.begin() + 3, own.begin(), own.end());
    expect_elements(d, v, "insert within the room, of its own elements");

    both("erase", [](auto &x) {
        CHECK(x.erase(x.begin() + 4) - x.begin() == 4, "erase's iterator");
        x.erase(x.begin(), x.begin() + 3);
        x.erase(x.end() - 2, x.end());
        x.erase(x.begin(), x.begin());
    });
    both("resize to more", [](auto &x) { x.resize(30, 6); });
    both("resize to fewer", [](auto &x) { x.resize(3); });
    d.shrink_to_fit();
    CHECK(d.capacity() == 3, "%zu", d.capacity());
    both("pop_back, push_back", [](auto &x) {
        x.pop_back();
        for (int i = 0; i < 40; ++i)
            x.push_back(i);
    });
    both("assign of a value", [](auto &x) { x.assign(3, 5); });
    both("assign of a range", [&](auto &x) { x.assign(more, more + 2); });
    d = {4, 3};
    d.clear();
    CHECK(d.empty() && d.begin() == d.end() && d.cbegin() == d.cend(), "%zu", d.size());
}

static void
test_conversions()
{
    const thrust::device_vector<int> d{1, 2, 3};
    const thrust::host_vector<int> h = d;
    thrust::device_vector<float> wide(d);
    expect_elements(wide, {1, 2, 3}, "a device_vector of another type");
    wide = std::vector<double>{4, 5};
    expect_elements(wide, {4, 5}, "a vector of another type");
    thrust::host_vector<double> other = h;
    other = wide;
    CHECK(other.size() == 2 && other[1] == 5 && h == d && d == h && !(h != d), "host_vector");
    CHECK(thrust::host_vector<int>(d.begin() + 1, d.end()) == std::vector<int>({2, 3}), "a range");

    CHECK(d.front() == 1 && d.back() == 3 && *d.rbegin() == 3 && d.rend()[-1] == 1 && *d.crbegin() == 3, "the ends");
    thrust::device_vector<int> a(1, 7), b{8, 9};
    swap(a, b);
    const thrust::device_vector<int> moved(std::move(a));
    CHECK(moved.size() == 2 && b[0] == 7, "swap, moved");
    thrust::device_vector<bool> flags(3, true);
    flags[1] = false;
    CHECK(flags[0] && !flags[1] && thrust::count(flags.begin(), flags.end(), true) == 2, "bool");

    ++b[0];
    b[0] <<= 2;
    b[0] |= 1;
    b[0] %= 32;
    CHECK(b[0]++ == 1 && --b[0] == 1, "an element");
    thrust::device_vector<int> pair{1, 2};
    thrust::device_reference<int> first = pair[0], second = pair[1];
    swap(first, second);
    pair[1] = b[0];
    wide[0] = pair[0];
    CHECK(pair[0] == 2 && wide[0] == 2.0f, "elements");
    std::ostringstream text;
    text << pair[0];
    CHECK(text.str() == "2", "%s", text.str().c_str());
}

int
main()
{
    test_vectors();
    test_changes();
    test_conversions();
    for (int n : {1, 2, 33, 1000}) {
        test_elements(n);
        test_values(n);
        test_blocks(n);
        test_partitions(n);
        test_sorted(n);
        test_neighbours(n);
    }
    return 0;
}
