// Attributes in every place that nvcc takes: launch bounds with constants, alignment, [[nodiscard]], inline forms.
constexpr int kThreads = 128;
[[nodiscard]] __device__ __forceinline__ int
a(int x)
{
    return x + 1;
}
static __device__ inline __attribute__((always_inline)) int
b(int x)
{
    return x + 2;
}
__noinline__ __device__ int
c(int x)
{
    return x + 3;
}
__device__ int d = 4;
struct __align__(8) Pair
{
    int x, y;
};
static_assert(alignof(Pair) == 8, "aligned");
__global__ void
__launch_bounds__(kThreads, 2) k1([[maybe_unused]] int unused, Pair *p)
{
    p->x = a(b(c(d)));
}
template <int N> __launch_bounds__(N * 2) __global__ static void k2(__grid_constant__ const Pair q, Pair *p)
{
    p->y = q.x + q.y + N;
}
__global__ [[deprecated]] void k3();

int
main()
{
    Pair *p = managed(sizeof(Pair));
    k1<<<1, kThreads>>>(0, p);
    k2<32><<<1, 64>>>(Pair{1, 2}, p);
    cudaFuncAttributes attributes;
    cudaFuncGetAttributes(&attributes, k2<32>);
    cudaDeviceSynchronize();
    return p->x == 10 && p->y == 35 && attributes.maxThreadsPerBlock == 64 ? 0 : 1;
}
