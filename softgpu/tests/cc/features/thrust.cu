// flags: --allow-removed
// Thrust's algorithms with stencils, predicates and operators of the caller's; sorts and scans by key; what drops its
// output, or goes through references; tuple.get<N>(). Its headers bring <cfloat> and <iostream>.
#include <cub/iterator/discard_output_iterator.cuh>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/equal.h>
#include <thrust/extrema.h>
#include <thrust/gather.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/replace.h>
#include <thrust/scan.h>
#include <thrust/scatter.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/system/cuda/detail/par.h>
#include <thrust/system/cuda/memory.h>
#include <thrust/transform.h>
#include <thrust/tuple.h>
#include <thrust/unique.h>
#include <thrust/version.h>

static_assert(THRUST_MAJOR_VERSION >= 3 && THRUST_VERSION / 100000 == THRUST_MAJOR_VERSION, "of CUDA 13");

struct is_odd {
    __host__ __device__ bool operator()(int x) const
    {
        return x % 2 != 0;
    }
};

template <class V>
bool
holds(const V &values, std::vector<float> expected)
{
    for (size_t i = 0; i < expected.size(); ++i) {
        if (static_cast<float>(values[i]) != expected[i])
            return false;
    }
    return true;
}

static const int numbers[] = {1, 1, 2, 2, 2, 3};

FEATURE(algorithms_by_key_and_by_stencil)
{
    thrust::device_vector<int> key(numbers, numbers + 6), keys(6);
    thrust::device_vector<float> value(6), out(6);
    thrust::sequence(value.begin(), value.end(), 1.0f);
    const auto first = key.begin(), last = key.end();
    const auto ends = thrust::reduce_by_key(first, last, value.begin(), thrust::make_discard_iterator(), out.begin(),
                                            thrust::equal_to<int>(), thrust::maximum<float>());
    EXPECT(ends.second - out.begin() == 3 && holds(out, {2, 5, 6}));
    thrust::reduce_by_key(thrust::cuda::par, first, last, value.begin(), keys.begin(), out.begin(),
                          thrust::equal_to<int>());
    EXPECT(holds(out, {3, 12, 6}) && holds(keys, {1, 2, 3}));
    thrust::inclusive_scan_by_key(first, last, value.begin(), out.begin());
    EXPECT(holds(out, {1, 3, 3, 7, 12, 6}));
    thrust::exclusive_scan_by_key(first, last, value.begin(), out.begin(), 10.0f);
    EXPECT(holds(out, {10, 11, 10, 13, 17, 10}));
    const auto kept = thrust::copy_if(value.begin(), value.end(), first, keys.begin(), is_odd());
    EXPECT(kept - keys.begin() == 3 && holds(keys, {1, 2, 6}));
    thrust::transform_if(value.begin(), value.end(), first, out.begin(), thrust::negate<float>(), is_odd());
    EXPECT(holds(out, {-1, -2, 10, 13, 17, -6}));
    thrust::replace_if(out.begin(), out.end(), first, is_odd(), 0.0f);
    EXPECT(holds(out, {0, 0, 10, 13, 17, 0}));
    const auto extremes = thrust::minmax_element(out.begin(), out.end());
    EXPECT(*extremes.second == 17.0f);
    thrust::device_vector<int> rest(key);
    EXPECT(thrust::remove(rest.begin(), rest.end(), 2) - rest.begin() == 3 && holds(rest, {1, 1, 3}));
    const auto removed = thrust::remove_if(value.begin(), value.end(), first, is_odd());
    EXPECT(removed - value.begin() == 3 && holds(value, {3, 4, 5}));
    const auto both = thrust::unique_by_key(key.begin(), key.end(), value.begin());
    EXPECT(both.first - key.begin() == 3 && holds(key, {1, 2, 3}));
}

FEATURE(algorithms_on_the_host)
{
    const int from[] = {4, 5};
    int gathered[] = {7, 7}, scattered[3] = {};
    thrust::gather_if(from, from + 2, from, numbers, gathered, is_odd());
    thrust::scatter_if(numbers + 4, numbers + 6, numbers + 3, from, scattered, is_odd());
    EXPECT(gathered[0] == 7 && gathered[1] == 3 && scattered[2] == 3);
    EXPECT(thrust::equal(numbers, numbers + 2, from, thrust::less<int>()));
    EXPECT(!thrust::is_sorted(numbers, numbers + 6, thrust::greater<int>()));
    cub::DiscardOutputIterator<> nowhere;
    nowhere[3] = 5;
    thrust::tuple<int, float> tuple(1, 2.5f);
    tuple.get<0>() = 7;
    EXPECT(thrust::get<0>(tuple) == 7 && tuple.get<1>() == 2.5f);
}

FEATURE(lambdas_pairs_and_memory_of_the_device)
{
    thrust::device_vector<int> keys(10), values(10);
    thrust::sequence(values.begin(), values.end());
    thrust::transform(values.begin(), values.end(), keys.begin(), [] __host__ __device__(int i) { return i * 7 % 10; });
    thrust::sort_by_key(keys.begin(), keys.end(), values.begin(), thrust::greater<int>());
    EXPECT(holds(values, {7, 4, 1, 8, 5, 2, 9, 6, 3, 0}) && keys[0] == 9 && keys[9] == 0);
    const auto memory = thrust::cuda::malloc<float>(4);
    thrust::fill(memory, memory + 4, 2.0f);
    EXPECT(thrust::reduce(memory, memory + 4) == 8.0f);
    thrust::cuda::free(memory);
}

FEATURE(copies_go_into_references)
{
    thrust::device_vector<float> from(4, 3.0f), to(8, 1.0f);
    float *place = thrust::raw_pointer_cast(to.data());
    const auto every_second = thrust::make_transform_iterator(
        thrust::counting_iterator<int>(0), [place] __device__(int i) -> float & { return place[2 * i]; });
    thrust::copy(thrust::cuda::par.on(0), from.begin(), from.end(), every_second);
    if (thrust::reduce(to.begin(), to.end(), -FLT_MAX, thrust::maximum<float>()) != 3)
        std::cerr << "the largest is not 3" << std::endl;
    EXPECT(holds(to, {3, 1, 3, 1, 3, 1, 3, 1}));
}
