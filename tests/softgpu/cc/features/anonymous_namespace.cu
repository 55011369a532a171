// Kernels and device functions in anonymous and inline namespaces; using declarations; kernels declared before use.
namespace
{
__device__ int
helper(int x)
{
    return x + 1;
}
__global__ void k(int *p);
} // namespace
namespace lib
{
inline namespace v2
{
template <class T>
__global__ void
k2(T *p)
{
    *p = helper(*p);
}
} // namespace v2
namespace detail
{
using lib::k2;
}
} // namespace lib

int
main()
{
    int *p = managed(4);
    k<<<1, 1>>>(p);
    using lib::detail::k2;
    k2<<<1, 1>>>(p);
    lib::k2<int><<<1, 1>>>(p);
    cudaDeviceSynchronize();
    return *p == 43 ? 0 : 1;
}
namespace
{
__global__ void
k(int *p)
{
    *p = helper(40);
}
} // namespace
