// Thrust: sorts and reductions by key, transforms of tuples and of counts, in a vector of structures.
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>
#include <thrust/tuple.h>
struct multiply_add {
    template <class Tuple> __host__ __device__ float operator()(const Tuple &t) const
    {
        return thrust::get<0>(t) * thrust::get<1>(t) + 1;
    }
};
struct square {
    __host__ __device__ int operator()(int x) const
    {
        return x * x;
    }
};

int
main()
{
    thrust::device_vector<int> keys(6), sums(6), found(6);
    thrust::device_vector<float> values(6), out(6);
    thrust::sequence(values.begin(), values.end(), 1.0f);
    for (int i = 0; i < 6; ++i)
        keys[i] = (i * 2 + 1) % 3;
    thrust::sort_by_key(keys.begin(), keys.end(), values.begin());
    const auto ends = thrust::reduce_by_key(keys.begin(), keys.end(), values.begin(), found.begin(), out.begin());
    const float by_key = out[1];
    auto first = thrust::make_zip_iterator(thrust::make_tuple(values.begin(), values.begin()));
    thrust::transform(first, first + 6, out.begin(), multiply_add());
    const int squares = thrust::transform_reduce(thrust::counting_iterator<int>(1), thrust::counting_iterator<int>(5),
                                                 square(), 0, thrust::plus<int>());
    const float product = thrust::inner_product(values.begin(), values.end(), values.begin(), 0.0f);
    const thrust::host_vector<float> host = out;
    return ends.first - found.begin() != 3 || by_key != 5 || squares != 30 || product != 91 ||
           host[0] != values[0] * values[0] + 1;
}
