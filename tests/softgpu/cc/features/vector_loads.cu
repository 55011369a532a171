// Loads and stores of vectors through reinterpret_cast: float4, int2, double2, uchar4, longlong2, const and __ldg.
__global__ void
copy4(const float *__restrict__ in, float *__restrict__ out, int n4)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n4)
        return;
    float4 v = reinterpret_cast<const float4 *>(in)[i];
    v.x += 1, v.w *= 2;
    ((float4 *)out)[i] = v;
}
__global__ void
other_types(const int *i, const double *d, unsigned char *c, long long *l)
{
    const int2 a = __ldg(reinterpret_cast<const int2 *>(i) + threadIdx.x);
    const double2 b = *(const double2 *)(d + 2 * threadIdx.x);
    reinterpret_cast<uchar4 *>(c)[threadIdx.x] = make_uchar4(a.x, a.y, int(b.x), int(b.y));
    longlong2 &pair = reinterpret_cast<longlong2 *>(l)[threadIdx.x];
    pair = make_longlong2(a.x * 10000000000ll, -a.y);
}

int
main()
{
    float *in = managed(256);
    float *out = managed(256);
    int *i = managed(64);
    double *d = managed(128);
    unsigned char *c = managed(32);
    long long *l = managed(128);
    for (int k = 0; k < 64; ++k)
        in[k] = k;
    for (int k = 0; k < 16; ++k)
        i[k] = k, d[k] = 100 + k;
    copy4<<<1, 16>>>(in, out, 16);
    other_types<<<1, 8>>>(i, d, c, l);
    cudaDeviceSynchronize();
    if (out[0] != 1 || out[63] != 126 || out[61] != 61)
        return 1;
    return c[31] == 115 && c[28] == 14 && l[2] == 20000000000ll && l[15] == -15 ? 0 : 2;
}
