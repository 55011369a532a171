// flags: -std=c++20 --expt-relaxed-constexpr
// Host code of C++20 around launches: spans, ranges, structured bindings, a source location, views of a map.
#include <array>
#include <map>
#include <numeric>
#include <ranges>
#include <span>
#include <string>
#include <tuple>
__global__ void
scale(float *p, int n, float by)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] *= by;
}
static std::tuple<dim3, dim3>
shape_for(std::size_t n)
{
    const unsigned threads = 32;
    return {dim3(static_cast<unsigned>((n + threads - 1) / threads)), dim3(threads)};
}
static void
scale_all(std::span<float> values, float by)
{
    const auto [grid, block] = shape_for(values.size());
    scale<<<grid, block>>>(values.data(), static_cast<int>(values.size()), by);
}

int
main()
{
    float *p = managed(100 * sizeof(float));
    std::span<float> all(p, 100);
    std::iota(all.begin(), all.end(), 0.0f);
    const std::map<std::string, std::pair<int, int>> parts = {{"first", {0, 10}}, {"last", {90, 10}}};
    for (const auto &[name, range] : parts)
        scale_all(all.subspan(range.first, range.second), name == "first" ? 2.0f : 3.0f);
    cudaDeviceSynchronize();
    float sum = 0;
    for (float x : all | std::views::filter([](float v) { return v > 200; }) | std::views::take(3))
        sum += x;
    const std::array bounds = {all.front(), all[9], all[50], all.back()};
    return bounds == std::array<float, 4>{0, 18, 50, 297} && sum == 270 + 273 + 276 ? 0 : 1;
}
