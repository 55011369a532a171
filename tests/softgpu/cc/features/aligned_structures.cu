// Structures with alignment in each of its spellings, as parameters, in arrays, and loaded as vectors.
struct __align__(16) packed
{
    float v[4];
};
struct alignas(32) wide {
    double d[2];
};
struct __builtin_align__(8) pair
{
    short a, b;
};
typedef struct {
    unsigned char bytes[3];
} odd;
__global__ void
k(packed p, wide w, pair q, odd o, float4 *out)
{
    const float4 loaded = *reinterpret_cast<const float4 *>(p.v);
    out[threadIdx.x] =
        make_float4(loaded.x + loaded.w, static_cast<float>(w.d[1]), static_cast<float>(q.a + q.b), o.bytes[2]);
}

int
main()
{
    static_assert(alignof(packed) == 16 && alignof(wide) == 32 && alignof(pair) == 8 && sizeof(pair) == 8 &&
                      sizeof(odd) == 3,
                  "layout");
    float4 *out = managed(sizeof(float4));
    k<<<1, 1>>>(packed{{1, 2, 3, 4}}, wide{{5, 6}}, pair{7, 8}, odd{{9, 10, 11}}, out);
    cudaDeviceSynchronize();
    return out->x != 5 || out->y != 6 || out->z != 15 || out->w != 11;
}
