// flags: -std=c++20 --expt-relaxed-constexpr
// C++20: captures of *this, spans, ranges and structured bindings around launches, three-way comparison in device code.
#include <array>
#include <compare>
#include <map>
#include <numeric>
#include <ranges>
#include <span>
#include <string>
#include <tuple>

struct settings {
    float gain[2];
    int shift;
};
template <typename F>
__global__ void
each(int n, F f)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        f(i);
}
class amplifier
{
    settings settings_;
    float offset_ = 0.5f;

  public:
    explicit amplifier(settings s) : settings_(s)
    {
    }
    __host__ __device__ float apply(float x, int i) const
    {
        return x * settings_.gain[i % 2] + offset_;
    }
    void run(float *p, int n) const
    {
        each<<<2, 16>>>(n, [=, *this] __device__(int i) { p[i] = apply(p[i], i + settings_.shift); });
    }
    void shift(float *p, int n)
    {
        const float table[3] = {10, 20, 30};
        each<<<2, 16>>>(
            n, [p, table, self = *this, by = 2 * n] __device__(int i) { p[i] += table[i % 3] + self.offset_ + by; });
        offset_ = 100;
    }
};

FEATURE(lambdas_capture_this_by_copy)
{
    float *p = managed(128);
    std::iota(p, p + 32, 0.0f);
    amplifier made({.gain = {2, 3}, .shift = 1});
    made.run(p, 32);
    made.shift(p, 30);
    EXPECT(done() && p[0] == 70.5f + 0.5f && p[1] == 2.5f + 80.5f && p[31] == 62.5f);
}

static std::tuple<dim3, dim3>
shape_for(std::size_t n)
{
    return {dim3(static_cast<unsigned>((n + 31) / 32)), dim3(32)};
}
static void
scale_all(std::span<float> values, float by)
{
    const auto [grid, block] = shape_for(values.size());
    each<<<grid, block>>>(static_cast<int>(values.size()), [p = values.data(), by] __device__(int i) { p[i] *= by; });
}

FEATURE(launches_stand_among_spans_and_ranges)
{
    float *p = managed(100 * sizeof(float));
    std::span<float> all(p, 100);
    std::iota(all.begin(), all.end(), 0.0f);
    const std::map<std::string, std::pair<int, int>> parts = {{"first", {0, 10}}, {"last", {90, 10}}};
    for (const auto &[name, range] : parts)
        scale_all(all.subspan(range.first, range.second), name == "first" ? 2.0f : 3.0f);
    EXPECT(done());
    float sum = 0;
    for (float x : all | std::views::filter([](float v) { return v > 200; }) | std::views::take(3))
        sum += x;
    const std::array bounds = {all.front(), all[9], all[50], all.back()};
    EXPECT(bounds == std::array<float, 4>{0, 18, 50, 297} && sum == 270 + 273 + 276);
}

struct version {
    int major_part, minor_part;
    __host__ __device__ constexpr auto operator<=>(const version &) const = default;
    __host__ __device__ constexpr bool operator==(const version &) const = default;
};
struct weight {
    float value;
    __host__ __device__ friend constexpr std::partial_ordering operator<=>(weight a, weight b)
    {
        return a.value <=> b.value;
    }
};
__global__ void
rank_all(const version *v, int n, int *rank, int *orders)
{
    const int me = threadIdx.x;
    for (int i = 0; i < n; ++i)
        rank[me] += v[i] < v[me] || (v[i] == v[me] && i < me);
    const auto order = weight{.value = float(me)} <=> weight{.value = 1.0f};
    orders[me] = order < 0 ? -1 : order > 0 ? 1 : 0;
}

FEATURE(device_code_compares_three_ways)
{
    version *v = managed(4 * sizeof(*v));
    int *rank = managed(16), *orders = managed(16);
    v[0] = {.major_part = 2, .minor_part = 1}, v[1] = {1, 9}, v[2] = {2, 0}, v[3] = {1, 9};
    rank_all<<<1, 4>>>(v, 4, rank, orders);
    static_assert(version{1, 2} < version{1, 3} && version{1, 2} != version{2, 2});
    EXPECT(done() && rank[0] == 3 && rank[1] == 0 && rank[2] == 2 && rank[3] == 1);
    EXPECT(orders[0] == -1 && orders[1] == 0 && orders[3] == 1);
}
