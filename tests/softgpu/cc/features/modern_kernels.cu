// flags: -std=c++20 --expt-relaxed-constexpr
// C++20 in kernels: template lambdas, designated initialisers in a launch, consteval, constinit, using enum, likely.
#include <array>
#include <bit>
#include <numeric>
enum class kind { add, multiply };
struct settings {
    kind what = kind::add;
    float factor = 1;
    int count = 0;
};
consteval int
square(int x)
{
    return x * x;
}
constinit int launches = 0;
__global__ void
k(settings s, float *x)
{
    using enum kind;
    const auto apply = []<class T>(T value, T factor, bool adds) -> T {
        if (adds) [[likely]]
            return value + factor;
        return value * factor;
    };
    constexpr std::array<int, 3> offsets = {square(1), square(2), square(3)};
    const int i = threadIdx.x;
    if (i < s.count)
        x[i] = apply(x[i], s.factor, s.what == add) + static_cast<float>(offsets[i % 3] + std::popcount(5u));
}

int
main()
{
    float *x = managed(16);
    std::iota(x, x + 4, 1.0f);
    k<<<1, 32>>>({.factor = 2, .count = 4}, x), ++launches;
    k<<<1, 32>>>({.what = kind::multiply, .factor = 3, .count = 2}, x), ++launches;
    cudaDeviceSynchronize();
    return x[0] != 21 || x[1] != 36 || x[2] != 16 || x[3] != 9 || launches != 2;
}
