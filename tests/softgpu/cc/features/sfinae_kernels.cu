// Kernels and device functions chosen by enable_if, void_t and tags; traits that detect members.
#include <type_traits>
template <typename, typename = void> struct has_scale : std::false_type {
};
template <typename T> struct has_scale<T, std::void_t<decltype(std::declval<T>().scale)>> : std::true_type {
};
struct Plain {
    float v;
};
struct Scaled {
    float v, scale;
};
template <typename T, std::enable_if_t<std::is_integral<T>::value, int> = 0>
__global__ void
half_of(T *p)
{
    p[threadIdx.x] >>= 1;
}
template <typename T, std::enable_if_t<std::is_floating_point<T>::value, int> = 0>
__global__ void
half_of(T *p)
{
    p[threadIdx.x] *= T(0.5);
}
template <typename T>
__device__ typename std::enable_if<has_scale<T>::value, float>::type
value(const T &t)
{
    return t.v * t.scale;
}
template <typename T>
__device__ typename std::enable_if<!has_scale<T>::value, float>::type
value(const T &t)
{
    return t.v;
}
template <typename T>
__device__ float
tagged(T v, std::true_type)
{
    return v + 1;
}
template <typename T>
__device__ float
tagged(T v, std::false_type)
{
    return v - 1;
}
template <typename T>
__global__ void
read(T t, float *out)
{
    out[threadIdx.x] = tagged(value(t), has_scale<T>{});
}

int
main()
{
    int *i = managed(4);
    double *d = managed(8);
    float *f = managed(8);
    *i = 7, *d = 7;
    half_of<<<1, 1>>>(i);
    half_of<<<1, 1>>>(d);
    read<<<1, 1>>>(Plain{3}, f);
    read<<<1, 1>>>(Scaled{3, 4}, f + 1);
    cudaDeviceSynchronize();
    return *i == 3 && *d == 3.5 && f[0] == 2 && f[1] == 13 ? 0 : 1;
}
