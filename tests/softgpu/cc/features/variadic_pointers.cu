// Kernels with packs of pointers and of values, sizeof..., packs in braces, a pack between other parameters.
template <typename... Ts>
__global__ void
zero_all(int n, Ts *...arrays)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int expand[] = {(arrays[i] = Ts(sizeof(Ts)), 0)...};
        (void)expand;
    }
}
template <int... Is>
__global__ void
gather(int *out)
{
    constexpr int table[sizeof...(Is)] = {Is...};
    out[threadIdx.x] = table[threadIdx.x % sizeof...(Is)];
}
template <typename Out, typename... In>
__global__ void
sum(Out *out, const In *...in)
{
    out[threadIdx.x] = (Out(0) + ... + Out(in[threadIdx.x]));
}

int
main()
{
    char *c = managed(8);
    float *f = managed(32);
    double *d = managed(64);
    int *i = managed(32);
    zero_all<<<1, 32>>>(8, c, f, d);
    gather<4, 8, 15><<<1, 8>>>(i);
    sum<<<1, 8>>>(d, c, f, i);
    cudaDeviceSynchronize();
    return c[7] == 1 && f[0] == 4 && d[0] == 9 && d[2] == 20 && i[5] == 15 ? 0 : 1;
}
