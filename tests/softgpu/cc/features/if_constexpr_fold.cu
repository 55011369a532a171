// if constexpr, fold expressions, structured bindings, constexpr functions, std::array and std::tuple on the host.
#include <array>
#include <tuple>
#include <type_traits>
template <typename... T>
__device__ auto
sum(T... v)
{
    return (v + ... + 0);
}
template <class T, bool kBackward>
__global__ void
step(T *p, int n)
{
    int i = threadIdx.x;
    if (i >= n)
        return;
    if constexpr (kBackward && std::is_floating_point_v<T>)
        p[i] = -p[i];
    else if constexpr (std::is_same_v<T, int>)
        p[i] = sum(p[i], 1, 2);
}
constexpr int
ceil_div(int a, int b)
{
    return (a + b - 1) / b;
}

int
main()
{
    auto make = [](int n) {
        float *f = managed(n * 4);
        int *i = managed(n * 4);
        return std::tuple(f, i, n);
    };
    auto [f, i, n] = make(10);
    f[9] = 4, i[9] = 5;
    constexpr std::array<int, 2> shape = {ceil_div(10, 4), 16};
    step<float, true><<<shape[0], shape[1]>>>(f, n);
    step<int, false><<<1, std::get<1>(shape)>>>(i, n);
    cudaDeviceSynchronize();
    return i[9] == 8 && (f[9] == 4 || f[9] == -4) ? 0 : 1;
}
