// Parameters whose types are those of others, trailing types, noexcept, using in kernels, typeof-like forms.
#include <type_traits>
__global__ void
k(float a, decltype(a) *out, std::remove_cv<decltype(a)>::type b)
{
    using R = decltype(a + b);
    *out = R(a) + b;
}
template <class F>
__global__ auto
k2(F f, int *p) -> void
{
    static_assert(std::is_same<decltype(f(*p)), int>::value, "");
    *p = f(*p);
}
struct Inc {
    __device__ auto operator()(int x) const noexcept -> int
    {
        return x + 1;
    }
};
int
main()
{
    float *f = managed(4);
    int *i = managed(4);
    k<<<1, 1>>>(1.0f, f, 2.0f);
    k2<<<1, 1>>>(Inc(), i);
    cudaDeviceSynchronize();
    return *f == 3 && *i == 1 ? 0 : 1;
}
