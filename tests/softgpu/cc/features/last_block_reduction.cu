// The last block finishes: a ticket in a device variable, __threadfence, a shared flag.
__device__ unsigned int retirement = 0;
template <typename T>
__global__ void
sum_all(const T *in, volatile T *partial, T *out, int n)
{
    __shared__ T s[64];
    __shared__ bool is_last;
    T v = 0;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += 64 * gridDim.x)
        v += in[i];
    s[threadIdx.x] = v;
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) {
        if (threadIdx.x < k)
            s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = s[0];
        __threadfence();
        is_last = atomicInc(&retirement, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        T total = 0;
        for (unsigned b = 0; b < gridDim.x; ++b)
            total += partial[b];
        *out = total;
        retirement = 0;
    }
}
int
main()
{
    double *m = managed(2000 * 8);
    for (int i = 0; i < 1000; ++i)
        m[i] = i;
    for (int repeat = 0; repeat < 2; ++repeat)
        sum_all<double><<<7, 64>>>(m, m + 1000, m + 1100 + repeat, 1000);
    cudaDeviceSynchronize();
    return m[1100] == 499500 && m[1101] == 499500 ? 0 : 1;
}
