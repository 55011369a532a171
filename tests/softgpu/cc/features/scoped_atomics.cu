// Atomics of a block and of the system, for each operation that has these forms; vectors of floats.
__global__ void
scoped(int *a, unsigned *u, unsigned long long *l, float *f, double *d)
{
    atomicAdd_block(&a[0], 1);
    atomicSub_system(&a[1], 2);
    atomicMax_block(&a[2], static_cast<int>(threadIdx.x));
    atomicMin_system(&a[3], -static_cast<int>(threadIdx.x));
    atomicAnd_block(&u[0], ~(1u << (threadIdx.x & 31)));
    atomicOr_system(&u[1], 1u << (threadIdx.x & 31));
    atomicXor_block(&u[2], 3u);
    atomicInc_block(&u[3], 9u);
    atomicAdd_system(l, 5ull);
    atomicAdd_block(f, 0.5f);
    atomicAdd_system(d, 0.25);
    if (threadIdx.x == 0) {
        atomicExch_block(&a[4], 42);
        atomicCAS_system(&a[4], 42, 43);
    }
}
__global__ void
vectors(float4 *p)
{
    atomicAdd(p, make_float4(1, 2, 3, 4));
    atomicAdd_block(reinterpret_cast<float2 *>(p + 1), make_float2(0.5f, 0.25f));
}

int
main()
{
    int *a = managed(20);
    unsigned *u = managed(16);
    unsigned long long *l = managed(8);
    float *f = managed(4);
    double *d = managed(8);
    for (int i = 0; i < 5; ++i)
        a[i] = 0;
    u[0] = ~0u, u[1] = u[2] = u[3] = 0, *l = 0, *f = 0, *d = 0;
    float4 *v = managed(32);
    cudaMemset(v, 0, 32);
    vectors<<<1, 16>>>(v);
    scoped<<<1, 64>>>(a, u, l, f, d);
    cudaDeviceSynchronize();
    if (a[0] != 64 || a[1] != -128 || a[2] != 63 || a[3] != -63 || a[4] != 43)
        return 1;
    if (v[0].x != 16 || v[0].w != 64 || v[1].x != 8 || v[1].y != 4 || v[1].z != 0)
        return 3;
    return u[0] == 0 && u[1] == ~0u && u[2] == 0 && u[3] == 4 && *l == 320 && *f == 32 && *d == 16 ? 0 : 2;
}
