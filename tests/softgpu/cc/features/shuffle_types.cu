// Shuffles of every kind for every type of a value, with widths below a warp's.
#include <cuda_fp16.h>
template <typename T>
__global__ void
rotate(const T *in, T *out)
{
    const int lane = threadIdx.x;
    T v = in[lane];
    out[lane] = __shfl_sync(0xffffffffu, v, (lane + 1) & 31);
    out[32 + lane] = __shfl_up_sync(0xffffffffu, v, 2);
    out[64 + lane] = __shfl_down_sync(~0u, v, 3, 8);
    out[96 + lane] = __shfl_xor_sync(0xffffffff, v, 5, 16);
}
template <typename T>
bool
is_right()
{
    T *in = managed(32 * sizeof(T));
    T *out = managed(128 * sizeof(T));
    for (int i = 0; i < 32; ++i)
        in[i] = T(float(i));
    rotate<<<1, 32>>>(in, out);
    bool ok = cudaDeviceSynchronize() == cudaSuccess;
    for (int i = 0; i < 32; ++i) {
        ok = ok && float(out[i]) == float((i + 1) % 32) && float(out[32 + i]) == float(i < 2 ? i : i - 2);
        ok = ok && float(out[64 + i]) == float(i % 8 < 5 ? i + 3 : i) && float(out[96 + i]) == float(i ^ 5);
    }
    cudaFree(in);
    cudaFree(out);
    return ok;
}

int
main()
{
    if (!is_right<int>() || !is_right<unsigned>() || !is_right<long>() || !is_right<unsigned long>())
        return 1;
    if (!is_right<long long>() || !is_right<unsigned long long>() || !is_right<float>() || !is_right<double>())
        return 2;
    return is_right<__half>() ? 0 : 3;
}
