// Operators of vector types as helper headers define them, for host and device; dim3 and uint3 in arithmetic.
inline __host__ __device__ float3
operator+(float3 a, float3 b)
{
    return make_float3(a.x + b.x, a.y + b.y, a.z + b.z);
}
inline __host__ __device__ void
operator+=(float4 &a, const float4 &b)
{
    a.x += b.x, a.y += b.y, a.z += b.z, a.w += b.w;
}
inline __host__ __device__ float
dot(float3 a, float3 b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}
__global__ void
k(float *out)
{
    float3 a = {1, 2, 3};
    float4 sum = make_float4(0, 0, 0, 0), one{1, 1, 1, 1};
    for (int i = 0; i < 3; ++i)
        sum += one;
    int2 p = make_int2(blockDim.x, gridDim.y);
    uint3 t = threadIdx;
    dim3 g = gridDim;
    longlong2 l = make_longlong2(1LL << 40, 2);
    uchar4 c = make_uchar4(255, 1, 2, 3);
    out[t.x] = dot(a + a, a) + sum.w + p.x * p.y + g.x + (l.x >> 40) + c.x;
}

int
main()
{
    float *out = managed(64);
    k<<<dim3(1, 3), 4>>>(out);
    cudaDeviceSynchronize();
    return out[3] == 28 + 3 + 12 + 1 + 1 + 255 ? 0 : 1;
}
