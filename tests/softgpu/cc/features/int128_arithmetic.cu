// 128-bit integers in kernels: products, shifts, division, as parameters and in structs.
struct Wide {
    unsigned __int128 value;
};
__host__ __device__ unsigned __int128
modular_power(unsigned __int128 base, unsigned long long exponent, unsigned long long modulus)
{
    unsigned __int128 result = 1;
    for (; exponent != 0; exponent >>= 1) {
        if ((exponent & 1) != 0)
            result = result * base % modulus;
        base = base * base % modulus;
    }
    return result;
}
__global__ void
k(unsigned long long *out, Wide w, __int128 negative)
{
    out[0] = static_cast<unsigned long long>(w.value >> 64);
    out[1] = static_cast<unsigned long long>(w.value);
    out[2] = static_cast<unsigned long long>(-negative / 1000);
    out[3] = static_cast<unsigned long long>(modular_power(3, 1000000006ull, 1000000007ull));
}

int
main()
{
    unsigned long long *out = managed(32);
    Wide w;
    w.value = (static_cast<unsigned __int128>(7) << 64) + 9;
    k<<<1, 1>>>(out, w, -static_cast<__int128>(123456789000));
    cudaDeviceSynchronize();
    if (out[0] != 7 || out[1] != 9 || out[2] != 123456789)
        return 1;
    return out[3] == 1 && modular_power(2, 10, 1000) == 24 ? 0 : 2;
}
