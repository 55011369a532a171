// flags: --allow-removed
// Thrust's algorithms with stencils, predicates and operators of the caller's; scans by key; what drops its output;
// tuple.get<N>().
#include <cub/iterator/discard_output_iterator.cuh>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/equal.h>
#include <thrust/extrema.h>
#include <thrust/gather.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/replace.h>
#include <thrust/scan.h>
#include <thrust/scatter.h>
#include <thrust/sort.h>
#include <thrust/system/cuda/detail/par.h>
#include <thrust/system/cuda/memory.h>
#include <thrust/transform.h>
#include <thrust/tuple.h>
#include <thrust/unique.h>
#include <vector>

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

int
main()
{
    const int numbers[] = {1, 1, 2, 2, 2, 3};
    thrust::device_vector<int> key(numbers, numbers + 6), keys(6);
    thrust::device_vector<float> value(6), out(6);
    thrust::sequence(value.begin(), value.end(), 1.0f);
    const auto first = key.begin(), last = key.end();
    auto ends = thrust::reduce_by_key(first, last, value.begin(), thrust::make_discard_iterator(), out.begin(),
                                      thrust::equal_to<int>(), thrust::maximum<float>());
    if (ends.second - out.begin() != 3 || !holds(out, {2, 5, 6}))
        return 1;
    thrust::reduce_by_key(thrust::cuda::par, first, last, value.begin(), keys.begin(), out.begin(),
                          thrust::equal_to<int>());
    if (!holds(out, {3, 12, 6}) || !holds(keys, {1, 2, 3}))
        return 2;
    thrust::inclusive_scan_by_key(first, last, value.begin(), out.begin());
    if (!holds(out, {1, 3, 3, 7, 12, 6}))
        return 3;
    thrust::exclusive_scan_by_key(first, last, value.begin(), out.begin(), 10.0f);
    if (!holds(out, {10, 11, 10, 13, 17, 10}))
        return 4;
    if (thrust::copy_if(value.begin(), value.end(), first, keys.begin(), is_odd()) - keys.begin() != 3 ||
        !holds(keys, {1, 2, 6}))
        return 5;
    thrust::transform_if(value.begin(), value.end(), first, out.begin(), thrust::negate<float>(), is_odd());
    if (!holds(out, {-1, -2, 10, 13, 17, -6}))
        return 6;
    thrust::replace_if(out.begin(), out.end(), first, is_odd(), 0.0f);
    if (!holds(out, {0, 0, 10, 13, 17, 0}))
        return 7;
    thrust::device_vector<int> rest(key);
    if (thrust::remove(rest.begin(), rest.end(), 2) - rest.begin() != 3 || !holds(rest, {1, 1, 3}) ||
        thrust::remove_if(value.begin(), value.end(), first, is_odd()) - value.begin() != 3 || !holds(value, {3, 4, 5}))
        return 8;
    const auto both = thrust::unique_by_key(key.begin(), key.end(), value.begin());
    if (both.first - key.begin() != 3 || !holds(key, {1, 2, 3}))
        return 9;
    const int from[] = {4, 5};
    int gathered[] = {7, 7}, scattered[3] = {};
    thrust::gather_if(from, from + 2, from, numbers, gathered, is_odd());
    thrust::scatter_if(numbers + 4, numbers + 6, numbers + 3, from, scattered, is_odd());
    if (gathered[0] != 7 || gathered[1] != 3 || scattered[2] != 3)
        return 10;
    const auto extremes = thrust::minmax_element(out.begin(), out.end());
    if (*extremes.second != 17.0f || !thrust::equal(numbers, numbers + 2, from, thrust::less<int>()) ||
        thrust::is_sorted(numbers, numbers + 6, thrust::greater<int>()))
        return 11;
    const auto memory = thrust::cuda::malloc<float>(4);
    thrust::fill(memory, memory + 4, 2.0f);
    const float sum = thrust::reduce(memory, memory + 4);
    thrust::cuda::free(memory);
    cub::DiscardOutputIterator<> nowhere;
    nowhere[3] = 5;
    thrust::tuple<int, float> tuple(1, 2.5f);
    tuple.get<0>() = 7;
    return !(sum == 8.0f && thrust::get<0>(tuple) == 7 && tuple.get<1>() == 2.5f);
}
