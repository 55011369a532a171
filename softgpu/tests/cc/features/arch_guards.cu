// __CUDA_ARCH__ in bodies, around functions, in lambdas and by NV_IF_TARGET: device code takes the device's side, host
// code the host's. Macros of compiler and versions.
#include <cuda.h>
#include <cuda_fp16.h>
#include <nv/target>
#if !defined(__CUDACC__) || !defined(__NVCC__)
#error "this is compiled as CUDA"
#endif
#if CUDART_VERSION < 11000 || CUDA_VERSION < 11000 || __CUDACC_VER_MAJOR__ < 11
#error "too old"
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 600
#error "atomicAdd of double"
#endif
#if defined(__CUDA_ARCH__)
#define SIDE 1
#else
#define SIDE 2
#endif
__host__ __device__ inline int
side()
{
#ifdef __CUDA_ARCH__
    return 10 + __CUDA_ARCH__ / 800;
#else
    return 20;
#endif
}
struct guarded {
    int seen;
    __host__ __device__ guarded() : seen()
    {
        seen = SIDE;
    }
    template <class T> __host__ __device__ T operator()(T x) const
    {
#if __CUDA_ARCH__ >= 700
        return x + T(1);
#else
        return x + T(2);
#endif
    }
    __host__ __device__ constexpr int fixed() const
    {
#ifdef __CUDA_ARCH__
        return 1;
#else
        return 2;
#endif
    }
};
/* One for each side, under one name. */
#ifdef __CUDA_ARCH__
__device__ inline int
of_one_side(int x)
{
    return x + 1;
}
#else
inline int
of_one_side(int x)
{
    return x + 2;
}
#endif
template <class T>
__device__ T
twice(T x)
{
    return x + x;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 600
template <>
__device__ half
twice(half x)
{
    return __hmul(x, __float2half(3)); /* tells itself apart */
}
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 600
#else
static __inline__ __device__ double
atomicAdd(double *address, double value)
{
    return *address += value;
}
#endif
#define BY_TARGET(name, ...)       \
    __host__ __device__ int name() \
    {                              \
        __VA_ARGS__                \
    }
BY_TARGET(by_if, NV_IF_TARGET(NV_IS_DEVICE, (return 1;), (return 2;)))
BY_TARGET(by_else, NV_IF_ELSE_TARGET(NV_IS_DEVICE, (return 1;), (return 2;)))
BY_TARGET(by_dispatch,
          NV_DISPATCH_TARGET(NV_PROVIDES_SM_90, (return 3;), NV_IS_DEVICE, (return 1;), NV_IS_HOST, (return 2;)))

__global__ void
ask_all(int *o)
{
#if __CUDA_ARCH__ >= 700
    o[0] = 1;
#else
    o[0] = 2;
#endif
    o[1] = SIDE;
    o[2] = side();
    o[3] = guarded().seen;
    o[4] = guarded()(4);
    o[5] = of_one_side(5);
    o[6] = __half2float(twice(__float2half(2)));
    o[7] = by_if();
    o[8] = guarded().fixed();
    o[9] = by_else() * 10 + by_dispatch();
}

FEATURE(each_side_takes_its_own)
{
    int *o = managed(64);
    ask_all<<<1, 1>>>(o);
    EXPECT(done());
    EXPECT(std::vector<int>(o, o + 10) == std::vector<int>{1, 1, 11, 1, 5, 6, 6, 1, 1, 11});
    EXPECT(SIDE == 2 && side() == 20 && guarded().seen == 2 && guarded()(4) == 6 && of_one_side(5) == 7);
    EXPECT(by_if() == 2 && by_else() == 2 && by_dispatch() == 2 && guarded().fixed() == 2);
    gives<int>({6}, 0, [=] __device__(int *out) {
#ifdef __CUDA_ARCH__
        out[0] = 6;
#else
        out[0] = 7;
#endif
    });
}
