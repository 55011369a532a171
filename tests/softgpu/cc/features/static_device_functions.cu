// Internal linkage: static kernels, functions and variables, static variables inside of device functions.
static __device__ int counter = 5;
static __constant__ int step = 2;
static __device__ __forceinline__ int
next_value()
{
    return atomicAdd(&counter, step);
}
static inline __host__ __device__ int
clamp(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}
__device__ static const float kTable[3] = {1, 2, 4};
__device__ int
calls()
{
    static __device__ int n = 0;
    return atomicAdd(&n, 1) + 1;
}
static __global__ void
k(int *out)
{
    const int v = next_value();
    atomicMax(&out[0], clamp(v, 0, 50));
    atomicMax(&out[1], calls());
    out[2] = int(kTable[2]);
}
template <typename T>
static __global__ void
store(T *out, T v)
{
    out[3] = v;
}

int
main()
{
    int *out = managed(16);
    cudaMemset(out, 0, 16);
    k<<<2, 8>>>(out);
    store<int><<<1, 1>>>(out, clamp(9, 0, 3));
    cudaDeviceSynchronize();
    return out[0] == 35 && out[1] == 16 && out[2] == 4 && out[3] == 3 ? 0 : 1;
}
