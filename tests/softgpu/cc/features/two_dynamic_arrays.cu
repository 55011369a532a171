// Dynamic shared memory as two types in two kernels, and as two pieces by alignment in one.
template <int A>
__host__ __device__ constexpr size_t
round_up(size_t n)
{
    return (n + A - 1) / A * A;
}
__global__ void
reverse_bytes(unsigned char *p, int n)
{
    extern __shared__ unsigned char bytes[];
    bytes[threadIdx.x] = p[threadIdx.x];
    __syncthreads();
    p[threadIdx.x] = bytes[n - 1 - threadIdx.x];
}
__global__ void
prefix(const short *in, double *out, int n)
{
    extern __shared__ __align__(16) double values[];
    short *codes = reinterpret_cast<short *>(reinterpret_cast<char *>(values) + round_up<16>(n * sizeof(double)));
    codes[threadIdx.x] = in[threadIdx.x];
    values[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    for (int step = 1; step < n; step <<= 1) {
        const double add = threadIdx.x >= unsigned(step) ? values[threadIdx.x - step] : 0;
        __syncthreads();
        values[threadIdx.x] += add;
        __syncthreads();
    }
    out[threadIdx.x] = values[threadIdx.x] * (codes[threadIdx.x] < 0 ? -1 : 1);
}

int
main()
{
    unsigned char *p = managed(50);
    short *in = managed(100);
    double *out = managed(400);
    for (int i = 0; i < 50; ++i)
        p[i] = i, in[i] = i == 7 ? -7 : i;
    reverse_bytes<<<1, 50, 50>>>(p, 50);
    prefix<<<1, 50, round_up<16>(400) + 100>>>(in, out, 50);
    cudaDeviceSynchronize();
    return p[0] == 49 && p[49] == 0 && out[7] == -14 && out[49] == 1225 - 14 ? 0 : 1;
}
