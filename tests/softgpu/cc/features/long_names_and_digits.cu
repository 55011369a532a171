// Digit separators, binary and hexadecimal literals, user literals, raw strings, alternative tokens, attributes.
#include <cstring>
__host__ __device__ constexpr unsigned long long operator"" _KB(unsigned long long n)
{
    return n << 10;
}
__global__ void
k(long long *out, bool yes)
{
    out[0] = 1'000'000 + 0b101 + 0x1p3f + 0XFFull + 4_KB;
    if (not yes or (yes and out[0] < 0))
        out[1] = -1;
    else [[likely]]
        out[1] = compl 0 bitand 7;
    out[2] = sizeof(R"(a "raw" <<<1, 1>>> string)") + 'a' + u8'b';
}
int
main()
{
    long long *out = managed(24);
    k<<<1'0 / 10, 0x1>>>(out, true);
    cudaDeviceSynchronize();
    return out[0] == 1000000 + 5 + 8 + 255 + 4096 && out[1] == 7 && out[2] == 26 + 97 + 98 ? 0 : 1;
}
