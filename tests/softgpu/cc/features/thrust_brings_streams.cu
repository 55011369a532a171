// Thrust's headers bring <cfloat> and <iostream>, and programs name what is in them.
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
int
main()
{
    thrust::device_vector<float> v(10, 2.0f);
    float largest = thrust::reduce(v.begin(), v.end(), -FLT_MAX, thrust::maximum<float>());
    if (largest != 2)
        std::cerr << "the largest is " << largest << std::endl;
    return largest == 2 ? 0 : 1;
}
