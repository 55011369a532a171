// global
// Device functions, variables and kernels with C linkage, one of them through a pointer, in a block and one by one.
extern "C" {
__device__ float extern_c_device_gain = 2;
__device__ float
extern_c_device_scale(float x)
{
    return x * extern_c_device_gain;
}
__host__ __device__ int
extern_c_device_clamp(int x, int high)
{
    return x > high ? high : x;
}
}
extern "C" __device__ float extern_c_device_square(float x);
extern "C" __global__ void __launch_bounds__(64) extern_c_device_kernel(float *p, int n);
extern "C" __device__ float
extern_c_device_square(float x)
{
    return x * x;
}
extern "C" __global__ void
extern_c_device_kernel(float *p, int n)
{
    float (*function)(float) = threadIdx.x % 2 ? extern_c_device_scale : extern_c_device_square;
    const int i = extern_c_device_clamp(threadIdx.x, n - 1);
    if (i == static_cast<int>(threadIdx.x))
        p[i] = function(p[i]);
}

int
main()
{
    float *p, gain = 10;
    cudaMallocManaged(&p, 32);
    for (int i = 0; i < 8; ++i)
        p[i] = i;
    cudaMemcpyToSymbol(extern_c_device_gain, &gain, sizeof(gain));
    extern_c_device_kernel<<<1, 32>>>(p, 6);
    cudaDeviceSynchronize();
    return p[3] == 30 && p[4] == 16 && p[5] == 50 && p[7] == 7 ? 0 : 1;
}
