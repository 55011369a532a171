// flags: -std=c++20 --expt-relaxed-constexpr
// operator<=> and defaulted comparisons in device code, designated initialisers, a three-way sort of keys.
#include <compare>
struct Version {
    int major_part, minor_part;
    __host__ __device__ constexpr auto operator<=>(const Version &) const = default;
    __host__ __device__ constexpr bool operator==(const Version &) const = default;
};
struct Weight {
    float value;
    __host__ __device__ friend constexpr std::partial_ordering operator<=>(Weight a, Weight b)
    {
        return a.value <=> b.value;
    }
};
__global__ void
rank_all(const Version *v, int n, int *rank, int *orders)
{
    const int me = threadIdx.x;
    int r = 0;
    for (int i = 0; i < n; ++i)
        r += v[i] < v[me] || (v[i] == v[me] && i < me);
    rank[me] = r;
    const auto order = Weight{.value = float(me)} <=> Weight{.value = 1.0f};
    orders[me] = order < 0 ? -1 : order > 0 ? 1 : 0;
}

int
main()
{
    Version *v = managed(4 * sizeof(*v));
    int *rank = managed(16);
    int *orders = managed(16);
    v[0] = {.major_part = 2, .minor_part = 1}, v[1] = {1, 9}, v[2] = {2, 0}, v[3] = {1, 9};
    rank_all<<<1, 4>>>(v, 4, rank, orders);
    cudaDeviceSynchronize();
    static_assert(Version{1, 2} < Version{1, 3} && Version{1, 2} != Version{2, 2});
    return rank[0] == 3 && rank[1] == 0 && rank[2] == 2 && rank[3] == 1 && orders[0] == -1 && orders[1] == 0 &&
                   orders[3] == 1
               ? 0
               : 1;
}
