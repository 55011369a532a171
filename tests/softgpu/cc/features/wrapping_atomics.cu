// atomicInc and atomicDec with their limits, atomicExch of floats, atomicCAS of 16 and 64 bits, 64-bit extremes.
__global__ void
wrap(unsigned *u, float *f, unsigned short *s, unsigned long long *l, long long *m)
{
    atomicInc(&u[0], 6u);
    atomicDec(&u[1], 6u);
    const float before = atomicExch(f, 1.0f);
    if (before == 7.0f)
        atomicAdd(&u[2], 1u);
    unsigned short old = *s, seen;
    while ((seen = atomicCAS(s, old, static_cast<unsigned short>(old + 3))) != old)
        old = seen;
    atomicMax(l, 1ull << (threadIdx.x + 20));
    atomicMin(m, -(1ll << (threadIdx.x + 20)));
    atomicCAS(&l[1], 5ull, 6ull);
}

int
main()
{
    unsigned *u = managed(12);
    float *f = managed(4);
    unsigned short *s = managed(4);
    unsigned long long *l = managed(16);
    long long *m = managed(8);
    u[0] = u[1] = u[2] = 0, *f = 7, *s = 65530, l[0] = 0, l[1] = 5, *m = 0;
    wrap<<<1, 32>>>(u, f, s, l, m);
    cudaDeviceSynchronize();
    if (u[0] != 32 % 7 || u[1] != 3 || u[2] != 1 || *f != 1)
        return 1;
    return *s == static_cast<unsigned short>(65530 + 96) && l[0] == 1ull << 51 && l[1] == 6 && *m == -(1ll << 51) ? 0
                                                                                                                  : 2;
}
