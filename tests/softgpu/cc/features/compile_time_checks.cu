// static_assert in kernels and device functions, on layouts of device types, on what a lambda is, with types of
// kernels.
#include <type_traits>
struct alignas(16) Quad {
    float v[4];
};
static_assert(sizeof(Quad) == 16 && alignof(Quad) == 16 && std::is_trivially_copyable<Quad>::value, "as on a GPU");
static_assert(sizeof(float3) == 12 && alignof(float4) == 16 && alignof(double2) == 16 && sizeof(dim3) == 12, "vectors");
template <typename T, int N>
__global__ void
load(const T *in, T *out)
{
    static_assert(N % 4 == 0, "a multiple of a vector");
    static_assert(sizeof(T) <= 16 && !std::is_const<T>::value, "small");
    __shared__ T tile[N];
    static_assert(sizeof(tile) == N * sizeof(T), "no padding");
    constexpr bool is_float = std::is_same<decltype(threadIdx.x), unsigned>::value;
    static_assert(is_float, "an unsigned index");
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[N - 1 - threadIdx.x];
}
static_assert(std::is_same<decltype(&load<int, 4>), void (*)(const int *, int *)>::value, "a kernel's address");
__device__ constexpr int
log2_of(int n)
{
    return n > 1 ? 1 + log2_of(n / 2) : 0;
}
static_assert(log2_of(1024) == 10, "constexpr device functions");
template <int... SIZES> struct Sizes {
    static_assert((((SIZES & (SIZES - 1)) == 0) && ...), "powers of two");
    static constexpr int total = (0 + ... + SIZES);
};

int
main()
{
    Quad *in = managed(4 * sizeof(Quad));
    Quad *out = managed(4 * sizeof(Quad));
    for (int i = 0; i < 4; ++i)
        in[i] = {{float(i), 0, 0, float(Sizes<4, 8, 16>::total)}};
    load<Quad, 4><<<1, 4>>>(in, out);
    cudaDeviceSynchronize();
    return out[0].v[0] == 3 && out[3].v[0] == 0 && out[1].v[3] == 28 ? 0 : 1;
}
