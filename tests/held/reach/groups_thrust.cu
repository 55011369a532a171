// Statistics of groups by Thrust: sort by key, reduce by key, a scan for offsets, a gather of top elements, a zip iterator with a functor.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/gather.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/tuple.h>
#include <vector>

struct centred {
    const float *means;
    __host__ __device__ float operator()(const thrust::tuple<int, float> &pair) const
    {
        const float d = thrust::get<1>(pair) - means[thrust::get<0>(pair)];
        return d * d;
    }
};

int main()
{
    const int n = 5000, groups = 23;
    thrust::host_vector<int> keys(n);
    thrust::host_vector<float> values(n);
    std::vector<double> sums(groups), counts(groups), squares(groups);
    for (int i = 0; i < n; ++i) {
        keys[i] = (i * 7919) % groups;
        values[i] = float((i * 31) % 101) / 16;
        sums[keys[i]] += values[i];
        counts[keys[i]] += 1;
    }
    for (int i = 0; i < n; ++i)
        squares[keys[i]] += std::pow(values[i] - sums[keys[i]] / counts[keys[i]], 2);

    thrust::device_vector<int> d_keys = keys, order(n), found(groups), found_counts(groups), offsets(groups);
    thrust::device_vector<float> d_values = values, sorted(n), d_sums(groups), means(groups), variances(groups), deviations(n);
    thrust::sequence(order.begin(), order.end());
    thrust::stable_sort_by_key(d_keys.begin(), d_keys.end(), order.begin());
    thrust::gather(order.begin(), order.end(), d_values.begin(), sorted.begin());
    auto ends = thrust::reduce_by_key(d_keys.begin(), d_keys.end(), sorted.begin(), found.begin(), d_sums.begin());
    if (ends.first - found.begin() != groups)
        return std::puts("wrong: groups"), 1;
    thrust::reduce_by_key(d_keys.begin(), d_keys.end(), thrust::make_constant_iterator(1), found.begin(), found_counts.begin());
    thrust::exclusive_scan(found_counts.begin(), found_counts.end(), offsets.begin());
    thrust::transform(d_sums.begin(), d_sums.end(), found_counts.begin(), means.begin(), thrust::divides<float>());
    auto pairs = thrust::make_zip_iterator(thrust::make_tuple(d_keys.begin(), sorted.begin()));
    thrust::transform(pairs, pairs + n, deviations.begin(), centred{thrust::raw_pointer_cast(means.data())});
    thrust::reduce_by_key(d_keys.begin(), d_keys.end(), deviations.begin(), found.begin(), variances.begin());
    const float all = thrust::reduce(d_values.begin(), d_values.end(), 0.0f, thrust::maximum<float>());
    const float dot = thrust::inner_product(d_values.begin(), d_values.end(), d_values.begin(), 0.0f);

    int wrong = 0, before = 0;
    double host_dot = 0;
    for (int i = 0; i < n; ++i)
        host_dot += double(values[i]) * values[i];
    for (int g = 0; g < groups; ++g) {
        wrong += found[g] != g || found_counts[g] != int(counts[g]) || offsets[g] != before;
        wrong += std::fabs(d_sums[g] - sums[g]) > 1e-3 * sums[g];
        wrong += std::fabs(variances[g] - squares[g]) > 1e-3 * squares[g];
        before += int(counts[g]);
    }
    wrong += all != *std::max_element(values.begin(), values.end());
    wrong += std::fabs(dot - host_dot) > 1e-3 * host_dot;
    std::printf("%d %s\n", wrong, wrong ? "wrong" : "ok");
    return wrong != 0;
}
