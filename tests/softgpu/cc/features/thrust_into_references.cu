// A copy into a transform_iterator whose functor returns a reference. Thrust's headers bring <cfloat> and <iostream>.
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/reduce.h>

int
main()
{
    thrust::device_vector<float> from(4, 3.0f), to(8, 1.0f);
    float *place = thrust::raw_pointer_cast(to.data());
    const auto every_second = thrust::make_transform_iterator(
        thrust::counting_iterator<int>(0), [place] __device__(int i) -> float & { return place[2 * i]; });
    thrust::copy(thrust::cuda::par.on(0), from.begin(), from.end(), every_second);
    if (thrust::reduce(to.begin(), to.end(), -FLT_MAX, thrust::maximum<float>()) != 3)
        std::cerr << "the largest is not 3" << std::endl;
    for (int i = 0; i < 8; ++i) {
        if (float(to[i]) != (i % 2 == 0 ? 3.0f : 1.0f))
            return 1 + i;
    }
    return 0;
}
