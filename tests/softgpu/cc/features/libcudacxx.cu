// libcu++: arrays, tuples, limits, integer functions and atomics of <cuda/...> in a kernel.
#include <cuda/atomic>
#include <cuda/bit>
#include <cuda/cmath>
#include <cuda/std/array>
#include <cuda/std/cmath>
#include <cuda/std/complex>
#include <cuda/std/limits>
#include <cuda/std/optional>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>

__global__ void
k(int *o)
{
    cuda::std::array<int, 3> a{1, 2, 3};
    auto t = cuda::std::make_tuple(1, 2.0f);
    o[0] = a[1] + cuda::std::get<0>(t) + (cuda::std::numeric_limits<int>::max() > 5) + cuda::ceil_div(7, 2);
    cuda::atomic_ref<int, cuda::thread_scope_device> r(o[1]);
    r.fetch_add(2, cuda::memory_order_relaxed);
}
int
main()
{
    int *o = managed(64);
    k<<<2, 16>>>(o);
    cudaDeviceSynchronize();
    return o[0] == 8 && o[1] == 64 ? 0 : 1;
}
