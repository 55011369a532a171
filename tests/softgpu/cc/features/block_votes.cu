// __syncthreads_count, __syncthreads_and, __syncthreads_or.
__global__ void
k(const int *in, int *out)
{
    const int v = in[threadIdx.x];
    int c = __syncthreads_count(v > 10), a = __syncthreads_and(v >= 0), o = __syncthreads_or(v == 77);
    if (threadIdx.x == 0)
        out[0] = c, out[1] = a != 0, out[2] = o != 0;
}

int
main()
{
    int *in = managed(400);
    int *out = managed(12);
    for (int i = 0; i < 100; ++i)
        in[i] = i;
    k<<<1, 70>>>(in, out);
    cudaDeviceSynchronize();
    return out[0] == 59 && out[1] == 1 && out[2] == 0 ? 0 : 1;
}
