// global
// A kernel with C linkage and a host function in an extern "C" block, as for Python's ctypes.
extern "C" __global__ void
extern_c_add(const float *a, const float *b, float *c, int n)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}
extern "C" {
int
extern_c_run(float *a, float *b, float *c, int n)
{
    extern_c_add<<<(n + 31) / 32, 32>>>(a, b, c, n);
    return cudaDeviceSynchronize();
}
}

int
main()
{
    float *m = managed(3 * 400);
    for (int i = 0; i < 200; ++i)
        m[i] = i;
    return extern_c_run(m, m + 100, m + 200, 100) == cudaSuccess && m[299] == 298 ? 0 : 1;
}
