// Hashes as random numbers in device code, unsigned arithmetic, overloads by type, constexpr unsigned constants.
#include <cuda_bf16.h>
__host__ __device__ constexpr unsigned int
SquirrelNoise(unsigned int position, unsigned int seed)
{
    constexpr unsigned int BIT_NOISE1 = 0xd2a80a3f, BIT_NOISE2 = 0xa884f197;
    unsigned int mangled = position;
    mangled *= BIT_NOISE1;
    mangled += seed;
    mangled ^= (mangled >> 9);
    mangled += BIT_NOISE2;
    return mangled ^ (mangled >> 11);
}
__device__ __forceinline__ void
round_to(float in, __nv_bfloat16 *out, unsigned int seed)
{
    unsigned int threshold = SquirrelNoise(threadIdx.x, seed) & 0xFFFF, bits = __float_as_uint(in);
    unsigned int rounded = bits & 0x0000FFFF;
    bits = rounded > threshold ? (bits | 0xFFFF) : (bits & ~0xFFFF);
    *out = __float2bfloat16_rn(__uint_as_float(bits));
}
__device__ __forceinline__ void
round_to(float in, float *out, unsigned int)
{
    *out = in;
}
template <class T>
__global__ void
k(T *out)
{
    round_to(1.0f + threadIdx.x / 4096.0f, out + threadIdx.x, 1337u);
}
int
main()
{
    float *f = managed(256);
    __nv_bfloat16 *b = managed(256);
    k<<<1, 32>>>(f);
    k<<<1, 32>>>(b);
    cudaDeviceSynchronize();
    static_assert(SquirrelNoise(1, 2) != SquirrelNoise(2, 1), "at compile time");
    return f[16] == 1.00390625f && __bfloat162float(b[0]) == 1 ? 0 : 1;
}
