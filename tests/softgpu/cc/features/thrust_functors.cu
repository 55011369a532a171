// Thrust: transforms, reductions, sorts by key and scans with lambdas and functors, raw pointers, kernels on vectors.
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/version.h>
static_assert(THRUST_MAJOR_VERSION >= 3 && THRUST_VERSION / 100000 == THRUST_MAJOR_VERSION, "of CUDA 13");
struct SquareMinus {
    float by;
    __host__ __device__ float operator()(float x) const
    {
        return x * x - by;
    }
};
__global__ void
add_one(float *p, int n)
{
    if (threadIdx.x < unsigned(n))
        p[threadIdx.x] += 1;
}

int
main()
{
    thrust::device_vector<float> x(10), y(10);
    thrust::sequence(x.begin(), x.end());
    thrust::transform(x.begin(), x.end(), y.begin(), [] __device__(float v) { return 2 * v; });
    thrust::transform(x.begin(), x.end(), y.begin(), y.begin(), thrust::plus<float>());
    add_one<<<1, 32>>>(thrust::raw_pointer_cast(y.data()), 10);
    const float sum = thrust::reduce(y.begin(), y.end(), 0.0f, thrust::plus<float>());
    const float largest =
        thrust::transform_reduce(thrust::device, x.begin(), x.end(), SquareMinus{1}, 0.0f, thrust::maximum<float>());
    thrust::device_vector<int> keys(10), values(10);
    thrust::sequence(values.begin(), values.end());
    thrust::transform(values.begin(), values.end(), keys.begin(), [] __host__ __device__(int i) { return i * 7 % 10; });
    thrust::sort_by_key(keys.begin(), keys.end(), values.begin(), thrust::greater<int>());
    thrust::inclusive_scan(keys.begin(), keys.end(), keys.begin());
    const thrust::host_vector<int> host = values, scanned = keys;
    return sum == 145 && largest == 80 && host[0] == 7 && host[9] == 0 && scanned[1] == 17 && scanned[9] == 45 ? 0 : 1;
}
