// cudaLaunchKernel with an array of addresses, for a template, and cudaLaunchKernelEx's relative in C++.
template <typename T>
__global__ void
axpy(T a, const T *x, T *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}

int
main()
{
    float *x, *y, a = 3;
    int n = 100;
    cudaMallocManaged(&x, 400);
    cudaMallocManaged(&y, 400);
    for (int i = 0; i < n; ++i)
        x[i] = i, y[i] = 1;
    void *args[] = {&a, &x, &y, &n};
    if (cudaLaunchKernel((const void *)axpy<float>, dim3(4), dim3(32), args, 0, nullptr) != cudaSuccess)
        return 1;
    if (cudaLaunchKernel((void *)&axpy<float>, 4, 32, args, 0, 0) != cudaSuccess)
        return 2;
    cudaDeviceSynchronize();
    return y[99] == 595 ? 0 : 3;
}
