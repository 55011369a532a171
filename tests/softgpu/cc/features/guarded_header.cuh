/* A header of guarded_header.cu, which includes it twice: kernels, a device variable, a template and a launcher. */
#ifndef GUARDED_HEADER_CUH
#define GUARDED_HEADER_CUH
static __device__ int header_counter = 10;
template <typename T>
__global__ void
header_fill(T *p, T v)
{
    p[threadIdx.x] = v + static_cast<T>(header_counter);
}
inline __global__ void
header_count()
{
    atomicAdd(&header_counter, 1);
}
template <typename T>
inline void
fill_from_header(T *p, T v, int n)
{
    header_count<<<1, 5>>>();
    header_fill<<<1, n>>>(p, v);
}
#endif
