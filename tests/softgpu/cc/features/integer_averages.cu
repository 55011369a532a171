// Integer intrinsics of arithmetic: averages, differences, high products, dot products of bytes, 24-bit products.
__global__ void
k(long long *out, int three)
{
    out[0] = __hadd(three, 6) + 100 * __rhadd(three, 6) + 10000 * __uhadd(3u, 8u);
    out[1] = __sad(-three, 4, 100u) + __usad(9u, 2u, 1000u);
    out[2] = __mul24(three, -5) + __umul24(7u, 6u);
    out[3] = __mulhi(0x40000000, three * 4) + 10 * __umulhi(0x80000000u, 6u);
    out[4] = __mul64hi(1ll << 62, 12ll) + __umul64hi(1ull << 63, 10ull);
    out[5] = __dp4a(0x01020304, 0x01010101, 5) + __dp4a(0xffu, 0x02u, 1u);
    out[6] = __dp2a_lo(0x00020003, 0x00000102, 0);
    out[7] = abs(-three) + llabs(-5ll) + labs(-6l);
    out[8] = __ffs(0) + __clz(0) + __popcll(0xffff0000ffffull) + __ffsll(1ll << 40);
    out[9] = __dp2a_hi(-65533, 0x05fe0000, 1) + int(__urhadd(4u, 7u));
}

int
main()
{
    long long *out = managed(80);
    k<<<1, 1>>>(out, 3);
    cudaDeviceSynchronize();
    const long long expected[] = {4 + 500 + 50000, 107 + 1007,    27, 3 + 30,       3 + 5,
                                  15 + 511,        2 * 1 + 3 * 2, 14, 32 + 32 + 41, -4};
    for (int i = 0; i < 10; ++i) {
        if (out[i] != expected[i])
            return i + 1;
    }
    return 0;
}
