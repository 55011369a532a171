// Integer intrinsics: counts, reversal, find, multiply high, funnel shifts, byte permutation, video instructions.
__global__ void
k(unsigned *out)
{
    out[0] = __popc(0xf0f0u) + __popcll(~0ull) + __clz(1) + __clzll(1) + __ffs(8) + __ffsll(0);
    out[1] = __brev(1u);
    out[2] = __mulhi(1 << 30, 1 << 30) + __umulhi(1u << 31, 4u);
    out[3] = __funnelshift_l(0x80000000u, 1u, 1);
    out[4] = __byte_perm(0x03020100u, 0x07060504u, 0x7410);
    out[5] = __sad(3, 10, 5u) + __mul24(3, 4) + __umul24(5u, 6u) + __hadd(3, 4) + __rhadd(3, 4);
    out[6] = __float_as_uint(1.0f);
    out[7] = __double2hiint(1.0);
    out[8] = __dp4a(0x01010101, 0x02020202, 1);
}

int
main()
{
    unsigned *o = managed(64);
    k<<<1, 1>>>(o);
    cudaDeviceSynchronize();
    return o[0] == 8 + 64 + 31 + 63 + 4 && o[1] == 0x80000000u && o[2] == (1u << 28) + 2 && o[3] == 3 &&
                   o[4] == 0x07040100u && o[5] == 12 + 12 + 30 + 3 + 4 && o[6] == 0x3f800000u && o[7] == 0x3ff00000u &&
                   o[8] == 9
               ? 0
               : 1;
}
