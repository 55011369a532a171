// A 16-byte pack of values with load and store helpers, int4 reinterpretation, memcpy of bits.
#include <cstring>
#include <cuda_bf16.h>
template <class ElementType> struct alignas(16) Packed128 {
    Packed128() = default;
    __device__ explicit Packed128(int4 bits)
    {
        static_assert(sizeof(bits) == sizeof(payload), "size mismatch");
        memcpy(&payload, &bits, sizeof(bits));
    }
    __device__ static Packed128 constant(ElementType value)
    {
        Packed128 result;
        for (int k = 0; k < size; ++k)
            result.payload[k] = value;
        return result;
    }
    __device__ ElementType &operator[](int index)
    {
        return payload[index];
    }
    __device__ int4 get_bits() const
    {
        int4 bits;
        memcpy(&bits, &payload, sizeof(bits));
        return bits;
    }
    static constexpr const size_t size = sizeof(int4) / sizeof(ElementType);
    ElementType payload[size];
};
template <class E>
__device__ Packed128<E>
load128(const E *address)
{
    return Packed128<E>{*reinterpret_cast<const int4 *>(address)};
}
template <class E>
__device__ void
store128(E *target, Packed128<E> value)
{
    *reinterpret_cast<int4 *>(target) = value.get_bits();
}
typedef __nv_bfloat16 floatX;
typedef Packed128<floatX> x128;
__global__ void
twice(floatX *p, size_t n)
{
    size_t i = (blockIdx.x * (size_t)blockDim.x + threadIdx.x) * x128::size;
    if (i >= n)
        return;
    x128 v = load128(p + i), one = x128::constant((floatX)1.0f);
    for (int k = 0; k < x128::size; ++k)
        v[k] = (floatX)((float)v[k] * 2.0f + (float)one[k]);
    store128(p + i, v);
}
int
main()
{
    floatX *p = managed(64 * sizeof(floatX));
    for (int i = 0; i < 64; ++i)
        p[i] = __float2bfloat16((float)i);
    twice<<<1, 32>>>(p, 64);
    cudaDeviceSynchronize();
    return __bfloat162float(p[63]) == 127 && __bfloat162float(p[0]) == 1 ? 0 : 1;
}
