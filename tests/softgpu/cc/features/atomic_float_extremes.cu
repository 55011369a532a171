// Extremes of floats through atomics of their bits, and a product by a loop around atomicCAS of 64 bits.
__device__ __forceinline__ float
atomicMaxFloat(float *address, float value)
{
    return value >= 0 ? __int_as_float(atomicMax((int *)address, __float_as_int(value)))
                      : __uint_as_float(atomicMin((unsigned int *)address, __float_as_uint(value)));
}
__device__ double
atomicMul(double *address, double value)
{
    unsigned long long int *address_as_ull = (unsigned long long int *)address;
    unsigned long long int old = *address_as_ull, assumed;
    do {
        assumed = old;
        old = atomicCAS(address_as_ull, assumed, __double_as_longlong(value * __longlong_as_double(assumed)));
    } while (assumed != old);
    return __longlong_as_double(old);
}
__global__ void
extremes(const float *in, float *largest, double *product, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicMaxFloat(largest, in[i]);
        atomicMul(product, i % 8 == 0 ? 2.0 : 1.0);
    }
}

int
main()
{
    float *in = managed(400);
    float *largest = managed(4);
    double *product = managed(8);
    for (int i = 0; i < 100; ++i)
        in[i] = -100.5f + i;
    *largest = -1e30f, *product = 1;
    extremes<<<4, 32>>>(in, largest, product, 100);
    cudaDeviceSynchronize();
    return *largest == -1.5f && *product == 8192 ? 0 : 1;
}
