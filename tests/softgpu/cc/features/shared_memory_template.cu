// The struct template through which generic kernels get a typed dynamic array, with a specialisation for each type.
template <class T> struct SharedMemory {
    __device__ inline operator T *()
    {
        extern __shared__ int __smem[];
        return (T *)__smem;
    }
    __device__ inline operator const T *() const
    {
        extern __shared__ int __smem[];
        return (T *)__smem;
    }
};
template <> struct SharedMemory<double> {
    __device__ inline operator double *()
    {
        extern __shared__ double __smem_d[];
        return (double *)__smem_d;
    }
};
template <class T>
__global__ void
reverse(T *d, int n)
{
    T *s = SharedMemory<T>();
    int t = threadIdx.x;
    s[t] = d[t];
    __syncthreads();
    d[t] = s[n - t - 1];
}

int
main()
{
    double *d = managed(64 * sizeof(double));
    float *f = managed(64 * sizeof(float));
    for (int i = 0; i < 64; ++i)
        d[i] = f[i] = i;
    reverse<double><<<1, 64, 64 * sizeof(double)>>>(d, 64);
    reverse<<<1, 64, 64 * sizeof(float)>>>(f, 64);
    cudaDeviceSynchronize();
    return d[0] == 63 && f[63] == 0 ? 0 : 1;
}
