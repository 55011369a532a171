// flags: -std=c++20 --expt-relaxed-constexpr
// Kernels over std::tuple, std::pair and std::index_sequence; arguments unpacked by std::apply on the host.
#include <tuple>
#include <utility>
template <class... T, std::size_t... I>
__device__ float
sum_of(const std::tuple<T...> &t, std::index_sequence<I...>)
{
    return (static_cast<float>(std::get<I>(t)) + ...);
}
template <class... T>
__global__ void
k(std::tuple<T...> t, std::pair<int, float> p, float *out)
{
    *out = sum_of(t, std::index_sequence_for<T...>()) * static_cast<float>(p.first) + p.second;
}

int
main()
{
    float *out = managed(4);
    const auto arguments = std::make_tuple(std::make_tuple(1, 2.5f, 3.0), std::make_pair(2, 0.5f), out);
    std::apply([](auto... a) { k<<<1, 1>>>(a...); }, arguments);
    cudaDeviceSynchronize();
    return *out != 13.5f;
}
