/*
 * kernels.cu - kernels as programs compile them while they run: test_modules.c reads this file as a string, compiles it
 * by NVRTC, and compares each with a loop on the host. It puts two headers before it, which it gives by their names.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* Sources for NVRTC, which has no <stdint.h>, define these. */
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

#if !defined(__CUDACC_RTC__) || __CUDA_ARCH__ < 700
#error "not as NVRTC compiles"
#endif

/* 1. as in the manual */
extern "C" __global__ void
saxpy(float a, const float *x, const float *y, float *out, size_t n)
{
    size_t tid = blockIdx.x * blockDim.x + threadIdx.x;
    if (tid < n)
        out[tid] = a * x[tid] + y[tid];
}

namespace jit
{
/* 2. an elementwise kernel over views, by its types and its operation */
template <class T> struct view {
    T *data;
    long stride;
    __device__ T &operator[](long i) const
    {
        return data[i * stride];
    }
};

template <class T, class Operation>
__global__ void
elementwise(view<const T> a, view<const T> b, view<T> out, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = Operation()(a[i], b[i]);
}

/* 3. a reduction: warps by shuffles, then shared memory */
template <int Threads>
__global__ void
__launch_bounds__(Threads) sum(const float *x, float *out, int n)
{
    __shared__ float of_warps[Threads / 32];
    float value = 0;
    for (int i = threadIdx.x; i < n; i += Threads)
        value += x[i];
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_down_sync(0xffffffff, value, distance);
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        value = 0;
        for (float part : of_warps)
            value += part;
        *out = value;
    }
}

/* 4. dynamic shared memory */
__global__ void
transpose(const int *in, int *out, int side)
{
    extern __shared__ int tile[];
    tile[threadIdx.y * side + threadIdx.x] = in[threadIdx.y * side + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * side + threadIdx.x] = tile[threadIdx.x * side + threadIdx.y];
}

/* 5., 6. half and bfloat16 */
template <class T>
__global__ void
scale_16_bits(T *x, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = (T)((float)x[i] * factor);
}

/* 7. a table that the host fills by the variable's lowered name */
__constant__ float weights[TAPS];

__global__ void
convolve(const float *x, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + TAPS > n)
        return;
    float value = 0;
#pragma unroll
    for (int k = 0; k < TAPS; ++k)
        value += weights[k] * x[i + k];
    out[i] = value;
}

/* 8. counters in device memory */
__device__ int calls;

__global__ void
histogram(const uint32_t *values, int *counts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&counts[values[i] % BINS], 1);
    if (i == 0)
        ++calls;
}
} // namespace jit

/* 9. 64-bit integers, by a macro of the command line: splitmix64 (Steele, Lea and Flood, 2014) */
__device__ uint64_t
mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

extern "C" __global__ void
draw(uint64_t seed, uint64_t *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = mix(seed + (i + 1) * (uint64_t)GOLDEN);
}

/* 10. variadic, with a lambda */
template <class... T>
__global__ void
add_all(double *out, T... values)
{
    auto add = [](double a, double b) { return a + b; };
    double sum = 0;
    ((sum = add(sum, values)), ...);
    *out = sum;
}
