// __reduce_add_sync and its relatives for signed and unsigned numbers, for a part of a warp.
__global__ void
reductions(int *i, unsigned *u)
{
    const int lane = threadIdx.x;
    const unsigned bit = 1u << lane;
    i[0] = __reduce_add_sync(0xffffffffu, lane - 16);
    i[1] = __reduce_min_sync(0xffffffffu, lane - 16);
    i[2] = __reduce_max_sync(0xffffffffu, -lane);
    u[0] = __reduce_add_sync(~0u, 2u);
    u[1] = __reduce_or_sync(~0u, bit);
    u[2] = __reduce_and_sync(~0u, ~bit);
    u[3] = __reduce_xor_sync(~0u, static_cast<unsigned>(lane));
    u[4] = __reduce_max_sync(~0u, bit);
    if (lane < 8)
        i[3] = __reduce_add_sync(0xffu, lane);
}

int
main()
{
    int *i = managed(16);
    unsigned *u = managed(20);
    reductions<<<1, 32>>>(i, u);
    cudaDeviceSynchronize();
    if (i[0] != -16 || i[1] != -16 || i[2] != 0 || i[3] != 28)
        return 1;
    return u[0] == 64 && u[1] == ~0u && u[2] == 0 && u[3] == 0 && u[4] == 0x80000000u ? 0 : 2;
}
